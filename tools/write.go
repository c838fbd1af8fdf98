package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"mneme/errkind"
	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
)

// WriteQuery is the new content of a file.
type WriteQuery struct {
	Path      string
	Text      Secret // without the character U+0000, which no view shows
	IfVersion string // only if that is the newest: an id or sequence number; IfNone: only if there is no file; "": as the session knows it
	Message   string // why, for the history; at most MaxMessage bytes
}

// MaxMessage is how many bytes the message of a write has at most.
const MaxMessage = 1000

// IfNone is the condition that the file does not exist.
const IfNone = "none"

// Write makes a text the content of a file. Without a condition it replaces the version
// that the session knows: if another session has changed the file, the text is kept as a
// conflict. Its error is an *Error.
func (m *Memory) Write(ctx context.Context, w WriteQuery) (Made, error) {
	if err := m.opts.Budget.Take(1, int64(len(w.Text.Reveal()))); err != nil {
		return Made{}, m.explain(err, "", false)
	}
	if hasNUL(w.Text.Reveal()) {
		return Made{}, failed(errkind.Invalid, m.opts.Texts.say(fieldNUL, "text"))
	}
	a, err := m.toMake(ctx, w.Path)
	if err != nil {
		return Made{}, err
	}
	if len(w.Message) > MaxMessage {
		return Made{}, failed(errkind.Invalid, m.opts.Texts.say(refusedRequest, fmt.Sprintf("the message is longer than %d bytes", MaxMessage)))
	}
	note := ""
	opts := m.writeOptions(a.place, "write", &note)
	opts.Message = w.Message
	if w.IfVersion != "" {
		expect, err := a.expected(ctx, w.IfVersion)
		if err != nil {
			return Made{}, m.explain(err, a.shown, false)
		}
		opts.Expect, opts.Swap = &expect, true
	}
	v, err := a.Session.Write(ctx, a.path, []byte(w.Text.Reveal()), opts)
	if err != nil {
		return Made{}, m.notWritten(err, a)
	}
	return a.madeWith(&v, note), nil
}

// notWritten is the error of a write or restoring.
func (m *Memory) notWritten(err error, a *address) error {
	if errkind.Of(err) == errkind.Overlap {
		return m.notMade(err, a, exists)
	}
	return m.explain(err, a.shown, true)
}

// expected returns the condition that a version is the newest, or that there is no file, which
// holds now.
func (a *address) expected(ctx context.Context, ref string) (expect versionlog.Expectation, err error) {
	v, err := a.Store.Head(ctx, a.path)
	head := &v
	if isNotFound(err) {
		head, err = nil, nil
	}
	if err != nil {
		return expect, err
	}
	seq, notNumber := strconv.ParseUint(ref, 10, 64)
	switch {
	case ref == IfNone:
		expect = versionlog.ExpectAbsent()
	case !history.IsVersionRef(ref):
		return expect, &memory.VersionRefError{Path: a.path, Ref: clip(ref, maxWord)}
	case notNumber == nil && head != nil && head.Seq == seq:
		expect = versionlog.ExpectVersion(head.ID)
	default:
		expect = versionlog.ExpectVersion(ref)
	}
	if !expect.Holds(head) {
		err = &versionlog.ConflictError{StoreID: a.Store.Info().ID, Conflicts: []versionlog.Conflict{{Path: a.path, Expected: expect, Head: head}}}
	}
	return expect, err
}

// Remove deletes files of one store, all or none: each as it is now, unless another session
// has changed it since this one has read it. Its error is an *Error.
func (m *Memory) Remove(ctx context.Context, paths []string) ([]Made, error) {
	if err := m.opts.Budget.Take(1, 0); err != nil {
		return nil, m.explain(err, "", false)
	}
	var changes []memory.Change
	var first *address
	for _, path := range paths {
		a, err := m.toEdit(ctx, path, missingToMove, missingToMove)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = a
		}
		if a.place != first.place {
			return nil, failed(errkind.Invalid, m.opts.Texts.say(otherStore, first.shown, a.shown))
		}
		if slices.ContainsFunc(changes, func(c memory.Change) bool { return c.Path == a.path }) {
			return nil, failed(errkind.Invalid, m.opts.Texts.say(refusedRequest, a.shown+" is named twice"))
		}
		head, err := a.removable(ctx)
		if isNotFound(err) {
			return nil, failed(errkind.NotFound, m.opts.Texts.say(missingToMove, a.shown))
		}
		if err != nil {
			return nil, m.explain(err, a.shown, false)
		}
		changes = append(changes, memory.Change{Action: versionlog.Remove, Path: a.path, Expect: versionlog.ExpectVersion(head)})
	}
	if first == nil {
		return nil, nil
	}
	c, err := first.Session.Batch(ctx, changes, m.writeOptions(first.place, "delete", new(string)))
	if err != nil {
		return nil, m.explain(err, first.shown, true)
	}
	return first.madeAll(c.Versions), nil
}

// removable returns the id of the version that is at an address, if the session may remove
// it.
func (a *address) removable(ctx context.Context) (id string, err error) {
	v, err := a.Store.Head(ctx, a.path)
	if err != nil {
		return "", err
	}
	if e := a.Session.AdmitRemoval(a.path, memory.NewHead(&v)); e != nil {
		a.Session.Report(e, "")
		return "", e
	}
	return v.ID, nil
}

// Restore makes the content of an earlier version that of a file again. It is refused if
// another session has changed the file since this one has read it; nothing is kept then,
// since the content is a version already. Its error is an *Error.
func (m *Memory) Restore(ctx context.Context, path, version string) (Made, error) {
	if err := m.opts.Budget.Take(1, 0); err != nil {
		return Made{}, m.explain(err, "", false)
	}
	a, err := m.toMake(ctx, path)
	if err != nil {
		return Made{}, err
	}
	v, err := history.Resolve(ctx, a.Store, a.path, version)
	var none *memory.NoVersionError
	if isNotFound(err) && !errors.As(err, &none) { // no file ever was there
		if known, err := a.versions(ctx, 0, func(*versionlog.Version) bool { return false }); err == nil && known {
			return Made{}, failed(errkind.Invalid, m.opts.Texts.say(dirToRestore, a.shown))
		}
	}
	if err != nil {
		return Made{}, m.explain(err, a.shown, false)
	}
	if err := a.admit(ctx); err != nil {
		return Made{}, m.explain(err, a.shown, false)
	}
	note := ""
	made, err := a.Session.Restore(ctx, a.path, v, m.writeOptions(a.place, "restore", &note))
	if err != nil {
		return Made{}, m.notWritten(err, a)
	}
	return a.madeWith(&made, note), nil
}

// admit asks whether the session may replace the file at an address.
func (a *address) admit(ctx context.Context) error {
	head, err := a.Store.Head(ctx, a.path)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if e := a.Session.Admit(a.path, memory.NewHead(&head)); e != nil {
		a.Session.Report(e, "")
		return e
	}
	return nil
}
