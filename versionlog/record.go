package versionlog

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

type record struct {
	Format   int               `json:"format"`
	StoreID  string            `json:"store_id"`
	Seq      uint64            `json:"seq"`
	Epoch    uint64            `json:"epoch,omitempty"` // from format 2 on, as event and meta
	Time     string            `json:"time"`
	Actor    Actor             `json:"actor"`
	Session  string            `json:"session,omitempty"`
	Message  string            `json:"message,omitempty"`
	Key      string            `json:"key"`
	Meta     map[string]string `json:"meta,omitempty"`
	Prev     Digest            `json:"prev"`
	Event    *recordEvent      `json:"event,omitempty"`
	Versions []recordVersion   `json:"versions"`
	Digest   Digest            `json:"digest"`
}

type recordEvent struct {
	Kind   EventKind         `json:"kind"`
	Fields map[string]string `json:"fields,omitempty"`
}

type recordVersion struct {
	ID       string `json:"id"`
	MemoryID string `json:"memory_id"`
	Parent   string `json:"parent,omitempty"`
	Op       Op     `json:"op"`
	Payload  Digest `json:"payload"`
	Salt     string `json:"salt,omitempty"` // it and the path are missing after a redaction
	Path     string `json:"path,omitempty"`
	From     string `json:"from,omitempty"`
	Spelling string `json:"spelling,omitempty"` // from format 2 on
	SHA256   Digest `json:"sha256,omitzero"`
	Size     int64  `json:"size"`
}

// EncodeRecord returns the commit as the record that backends keep, in its own format:
// JSON that is enough to rebuild every index from.
func EncodeRecord(c *Commit) ([]byte, error) { return json.Marshal(recordOf(c)) }

// HasRecord reports whether data is the record of c, byte for byte. DecodeRecord skips
// members that it does not know, and accepts other spellings of those that it knows; no
// digest covers these differences.
func (c *Commit) HasRecord(data []byte) bool {
	want, err := EncodeRecord(c)
	return err == nil && bytes.Equal(want, data)
}

func recordOf(c *Commit) *record {
	r := &record{
		Format: c.Format, StoreID: c.StoreID, Seq: c.Seq, Epoch: c.Epoch, Time: c.Time.Format(recordTime),
		Actor: c.Actor, Session: c.Session, Message: c.Message, Key: c.Key, Meta: c.Meta,
		Prev: c.Prev, Event: (*recordEvent)(c.Event), Digest: c.Digest, Versions: make([]recordVersion, len(c.Versions)),
	}
	if c.Format == 1 {
		r.Epoch = 0
	}
	for i, v := range c.Versions {
		r.Versions[i] = recordVersion{
			ID: v.ID, MemoryID: v.MemoryID, Parent: v.Parent, Op: v.Op, Payload: c.Seals[i].Payload,
			Path: v.Path, From: v.From, Spelling: v.Spelling, SHA256: v.Digest, Size: v.Size,
		}
		if !v.Redacted() {
			r.Versions[i].Salt = hex.EncodeToString(c.Seals[i].Salt[:])
		}
	}
	return r
}

// checkRecord verifies a commit, and that its record reads as the commit: texts are
// UTF-8, and the time is one of UTC, in whole microseconds.
func (c *Commit) checkRecord() error {
	if err := c.Verify(); err != nil {
		return err
	}
	data, err := EncodeRecord(c)
	if err != nil {
		return err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	read, err := r.commit()
	if err == nil && !read.Time.Equal(c.Time) {
		err = fmt.Errorf("it is of %v, and its record of %v", c.Time, read.Time)
	}
	if err != nil {
		return fmt.Errorf("no record can hold it: %w", err)
	}
	return nil
}

// DecodeRecord reads a record and checks that its payloads and its own digest
// hold. That Prev is the digest of the record before is for the caller to
// check. Errors: ErrFormat, ErrCorrupt.
func DecodeRecord(data []byte) (*Commit, error) {
	var r record
	readErr := json.Unmarshal(data, &r)
	if readErr != nil { // that of a later format may not fit, but has a number
		r = record{}
		if err := json.Unmarshal(data, &struct {
			Format *int `json:"format"`
		}{&r.Format}); err != nil {
			return nil, fmt.Errorf("commit record: %w: %w", ErrCorrupt, err)
		}
	}
	switch {
	case r.Format > RecordFormat:
		return nil, fmt.Errorf("commit record has format %d, this mneme reads up to %d: %w; use a newer mneme", r.Format, RecordFormat, ErrFormat)
	case r.Format < 1:
		return nil, fmt.Errorf("commit record: %w: format %d", ErrCorrupt, r.Format)
	case readErr != nil:
		return nil, fmt.Errorf("commit record: %w: %w", ErrCorrupt, readErr)
	}
	c, err := r.commit()
	if errors.Is(err, ErrFormat) {
		return nil, fmt.Errorf("commit record %d: %w", r.Seq, err)
	}
	if err != nil {
		return nil, fmt.Errorf("commit record %d: %w: %w", r.Seq, ErrCorrupt, err)
	}
	return c, nil
}

func (r *record) commit() (*Commit, error) {
	at, err := time.Parse(recordTime, r.Time)
	if err != nil {
		return nil, err
	}
	c := &Commit{
		Format: r.Format, StoreID: r.StoreID, Seq: r.Seq, Epoch: r.Epoch, Time: at,
		Actor: r.Actor, Session: r.Session, Message: r.Message, Key: r.Key, Meta: r.Meta,
		Prev: r.Prev, Digest: r.Digest, Event: (*Event)(r.Event),
		Versions: make([]Version, len(r.Versions)), Seals: make([]Seal, len(r.Versions)),
	}
	if c.Format == 1 {
		if c.Epoch != 0 {
			return nil, errors.New("it has an epoch, though its format is 1")
		}
		c.Epoch = 1
	}
	if len(c.Meta) == 0 {
		c.Meta = nil
	}
	for i, rv := range r.Versions {
		v := Version{
			ID: rv.ID, MemoryID: rv.MemoryID, Parent: rv.Parent, Seq: r.Seq, Op: rv.Op,
			Path: rv.Path, From: rv.From, Spelling: rv.Spelling, Digest: rv.SHA256, Size: rv.Size,
			Actor: r.Actor, Session: r.Session, Time: at, Message: r.Message,
		}
		c.Versions[i], c.Seals[i].Payload = v, rv.Payload
		if v.Redacted() && rv.Salt == "" {
			continue
		}
		salt, err := hex.DecodeString(rv.Salt)
		if err != nil || len(salt) != len(Salt{}) {
			return nil, fmt.Errorf("version %s has no valid salt", rv.ID)
		}
		c.Seals[i].Salt = Salt(salt)
	}
	return c, c.Verify()
}
