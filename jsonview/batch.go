package jsonview

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"mneme/cas"
	"mneme/errkind"
	"mneme/internal/quote"
	"mneme/internal/strictjson"
	"mneme/memory"
	"mneme/versionlog"
)

// Batch is several changes of a store that are made at once, all or none.
type Batch struct {
	Message string
	Key     string // of idempotency; "": none
	Changes []memory.Change
}

// BatchError says which change of a batch is wrong.
type BatchError struct {
	Number int // from 1
	Err    error
}

// Error gives the number of the change.
func (e *BatchError) Error() string { return fmt.Sprintf("change %d: %v", e.Number, e.Err) }

// Unwrap returns what is wrong with it.
func (e *BatchError) Unwrap() error { return e.Err }

// NumberedError returns a *BatchError of an error of memory.Store.Batch that is of one change.
func NumberedError(err error) error {
	if of, ok := errors.AsType[*memory.ChangeError](err); ok {
		return &BatchError{of.Index + 1, err}
	}
	return err
}

// invalidError is an error of kind errkind.Invalid.
type invalidError struct{ text string }

func (e *invalidError) Error() string      { return e.text }
func (e *invalidError) Kind() errkind.Kind { return errkind.Invalid }

func invalid(format string, args ...any) error { return &invalidError{fmt.Sprintf(format, args...)} }

// ReadBatch reads a batch from JSON, and checks it as far as possible without a store. The
// error of a single change is a *BatchError. The paths are those of memories, in their
// canonical form.
func ReadBatch(data []byte, limits strictjson.Limits) (*Batch, error) {
	limits.Depth, limits.Plain = 4, true
	o, err := strictjson.Parse(data, &limits)
	if err != nil {
		if wrong, ok := errors.AsType[*strictjson.Error](err); ok && wrong.Element > 0 {
			err = &BatchError{wrong.Element, err}
		}
		return nil, err
	}
	b := &Batch{}
	if b.Message, _, err = optString(o, "message"); err != nil {
		return nil, err
	}
	if b.Key, _, err = optString(o, "idempotency_key"); err != nil {
		return nil, err
	}
	changes, _, err := o.OptArray("changes")
	if err != nil {
		return nil, err
	}
	if err := o.Done(); err != nil {
		return nil, err
	}
	if len(changes) == 0 {
		return nil, invalid("there are no changes; want an array changes of one at least")
	}
	seen := make(map[string]int, len(changes))
	for i, raw := range changes {
		c, err := readChange(raw)
		if err == nil {
			err = noteTwice(seen, i+1, &c)
		}
		if err != nil {
			return nil, &BatchError{i + 1, err}
		}
		b.Changes = append(b.Changes, c)
	}
	return b, nil
}

// noteTwice notes the paths of the change of a number, and returns an error if an earlier change has one
// of them, or the change has one twice.
func noteTwice(seen map[string]int, number int, c *memory.Change) error {
	for _, path := range []string{c.Path, c.To} {
		switch other := seen[path]; {
		case path == "":
		case other == number:
			return invalid("%s: a rename to the path that the memory has already; leave it out", path)
		case other > 0:
			return invalid("%s: change %d is of this path already; a batch changes a path once", path, other)
		default:
			seen[path] = number
		}
	}
	return nil
}

// optString returns a field that is a string. Null is as if it were not given.
func optString(o *strictjson.Object, name string) (text string, given bool, err error) {
	if string(o.Peek(name)) == "null" {
		o.Raw(name)
	}
	return o.OptString(name)
}

// readChange reads a change, and checks it as far as that takes no store.
func readChange(raw json.RawMessage) (c memory.Change, err error) {
	o, err := strictjson.ObjectOf(raw)
	if err != nil {
		return c, err
	}
	action, _, err := o.OptString("action")
	if err != nil {
		return c, err
	}
	if c.Path, err = path(o, "path"); err != nil {
		return c, err
	}
	if c.Path == "" {
		return c, invalid("there is no path")
	}
	if c.To, err = path(o, "to"); err != nil {
		return c, err
	}
	c.Content, err = content(o, c.Path)
	if err != nil {
		return c, err
	}
	expect, err := condition(o, c.Path)
	if err != nil {
		return c, err
	}
	if err := o.Done(); err != nil {
		return c, err
	}
	return c, complete(&c, action, expect)
}

// complete sets the action and the expectation of a change, to which its other fields have to fit.
func complete(c *memory.Change, action string, expect *versionlog.Expectation) error {
	switch action {
	case "put":
		if c.Content == nil {
			return invalid("%s: want one of content and content_base64", c.Path)
		}
		c.Action, c.Expect = versionlog.Put, versionlog.ExpectAny()
	case "remove", "rename":
		if c.Content != nil || expect != nil && *expect == versionlog.ExpectAbsent() {
			return invalid("%s: content and if_absent are for put", c.Path)
		}
		c.Action, c.Expect = versionlog.Remove, versionlog.ExpectExists()
		if action == "rename" {
			c.Action = versionlog.Rename
		}
	default:
		return invalid("action %s: want put, remove or rename", quote.Name(action))
	}
	if (c.Action == versionlog.Rename) != (c.To != "") {
		return invalid("%s: a rename has a field to, and nothing else has", c.Path)
	}
	if expect != nil {
		c.Expect = *expect
	}
	return nil
}

// path returns a field that is the path of a memory; "": it is not given.
func path(o *strictjson.Object, name string) (string, error) {
	text, _, err := optString(o, name)
	if err != nil || text == "" {
		return "", err
	}
	return memory.ParsePath(text)
}

// content returns the content of a change; nil: none is given.
func content(o *strictjson.Object, path string) ([]byte, error) {
	text, isText, err := optString(o, "content")
	if err != nil {
		return nil, err
	}
	encoded, isEncoded, err := optString(o, "content_base64")
	switch {
	case err != nil:
		return nil, err
	case isText && isEncoded:
		return nil, invalid("%s: want one of content and content_base64", path)
	case isText:
		return []byte(text), nil
	case !isEncoded:
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, invalid("%s: content_base64: want base64 in the alphabet A-Z a-z 0-9 + /, with = at its end (RFC 4648, 4)", path)
	}
	return data, nil
}

// condition returns what a change presumes of its path; nil: nothing in particular.
func condition(o *strictjson.Object, path string) (*versionlog.Expectation, error) {
	var all []versionlog.Expectation
	for _, name := range []string{"if_absent", "if_version", "if_sha256"} { // what was to be conditional must not become unconditional
		if string(o.Peek(name)) == "null" {
			return nil, &strictjson.Error{Problem: strictjson.WrongType, Field: name, Want: "a condition", Got: "null"}
		}
	}
	isAbsent, _, err := o.OptBool("if_absent")
	if err != nil {
		return nil, err
	}
	if isAbsent {
		all = append(all, versionlog.ExpectAbsent())
	}
	id, given, err := o.OptString("if_version")
	if err != nil {
		return nil, err
	}
	if given {
		if _, _, err := versionlog.LocateVersion(id); err != nil {
			return nil, invalid("%s: if_version: %v", path, err)
		}
		all = append(all, versionlog.ExpectVersion(id))
	}
	sum, given, err := o.OptString("if_sha256")
	if err != nil {
		return nil, err
	}
	if given {
		d, err := cas.ParseDigest(sum)
		if err != nil {
			return nil, invalid("%s: if_sha256: %v", path, err)
		}
		all = append(all, versionlog.ExpectDigest(d))
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return &all[0], nil
	}
	return nil, invalid("%s: one condition at most", path)
}
