package versionlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The JSON form of expectations and of conflicts, for protocols. It is stable: a member
// may be added, none changes its meaning.

// wireExpectation has one member, which says the kind; the others are missing.
type wireExpectation struct {
	Any     bool    `json:"any,omitempty"`
	Absent  bool    `json:"absent,omitempty"`
	Exists  bool    `json:"exists,omitempty"`
	Version *string `json:"version,omitempty"`
	SHA256  *Digest `json:"sha256,omitempty"`
}

// MarshalJSON returns {"any":true}, {"absent":true}, {"exists":true},
// {"version":"memver_…"} or {"sha256":"…"}.
func (e Expectation) MarshalJSON() ([]byte, error) {
	var w wireExpectation
	switch e.kind {
	case expectAny:
		w.Any = true
	case expectAbsent:
		w.Absent = true
	case expectExists:
		w.Exists = true
	case expectVersion:
		w.Version = &e.version
	case expectDigest:
		w.SHA256 = &e.digest
	default:
		return nil, errors.New("an expectation of no kind")
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON writes, and nothing else.
func (e *Expectation) UnmarshalJSON(data []byte) error {
	var w wireExpectation
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return fmt.Errorf("expectation %.100q: %w", data, err)
	}
	var found []Expectation
	for _, one := range []struct {
		is bool
		e  Expectation
	}{{w.Any, ExpectAny()}, {w.Absent, ExpectAbsent()}, {w.Exists, ExpectExists()}} {
		if one.is {
			found = append(found, one.e)
		}
	}
	// A version "" and a digest that is zero are those of no memory, so they never hold for one.
	if w.Version != nil {
		found = append(found, ExpectVersion(*w.Version))
	}
	if w.SHA256 != nil {
		found = append(found, ExpectDigest(*w.SHA256))
	}
	if len(found) != 1 {
		return fmt.Errorf(`expectation %.100q: want one of {"any":true}, {"absent":true}, {"exists":true}, {"version":"memver_…"}, {"sha256":"…"}`, data)
	}
	*e = found[0]
	return nil
}

// wireVersion is a Version.
type wireVersion struct {
	ID       string    `json:"id"`
	MemoryID string    `json:"memory_id"`
	Parent   string    `json:"parent,omitempty"`
	Seq      uint64    `json:"seq"`
	Op       Op        `json:"op"`
	Path     string    `json:"path"`
	From     string    `json:"from,omitempty"`
	Spelling string    `json:"spelling,omitempty"`
	Digest   Digest    `json:"sha256,omitzero"`
	Size     int64     `json:"size"`
	Actor    Actor     `json:"actor"`
	Session  string    `json:"session,omitempty"`
	Time     time.Time `json:"time"`
	Message  string    `json:"message,omitempty"`
}

// wireConflict is a Conflict.
type wireConflict struct {
	Path     string       `json:"path"`
	Expected Expectation  `json:"expected"`
	Head     *wireVersion `json:"head"`
}

// MarshalJSON returns path, expected and head, which is null where there is none.
func (c Conflict) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireConflict{c.Path, c.Expected, (*wireVersion)(c.Head)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Conflict) UnmarshalJSON(data []byte) error {
	var w wireConflict
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*c = Conflict{w.Path, w.Expected, (*Version)(w.Head)}
	return nil
}

// EncodeVersion returns the JSON form of a version, which is that of a conflict's head.
func EncodeVersion(v *Version) ([]byte, error) { return json.Marshal((*wireVersion)(v)) }

// DecodeVersion reads what EncodeVersion writes. It passes over members that it does not
// know.
func DecodeVersion(data []byte) (v Version, err error) {
	err = json.Unmarshal(data, (*wireVersion)(&v))
	return v, err
}
