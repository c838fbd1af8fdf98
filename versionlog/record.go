package versionlog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"time"
)

// RecordFormat is the format of commit records that this package writes, and
// the newest it reads. docs/FORMAT.md describes it.
const RecordFormat = 1

const recordTime = "2006-01-02T15:04:05.000000Z"

type record struct {
	Format   int             `json:"format"`
	StoreID  string          `json:"store_id"`
	Seq      uint64          `json:"seq"`
	Time     string          `json:"time"`
	Actor    Actor           `json:"actor"`
	Session  string          `json:"session,omitempty"`
	Message  string          `json:"message,omitempty"`
	Key      string          `json:"key"`
	Prev     Digest          `json:"prev"`
	Versions []recordVersion `json:"versions"`
	Digest   Digest          `json:"digest"`
}

type recordVersion struct {
	ID       string `json:"id"`
	MemoryID string `json:"memory_id"`
	Parent   string `json:"parent,omitempty"`
	Op       Op     `json:"op"`
	Payload  Digest `json:"payload"`
	Salt     string `json:"salt"`
	Path     string `json:"path"`
	From     string `json:"from,omitempty"`
	SHA256   Digest `json:"sha256,omitzero"`
	Size     int64  `json:"size"`
}

// EncodeRecord returns the commit as the record that backends keep: JSON that
// is enough to rebuild every index from.
func EncodeRecord(c *Commit) ([]byte, error) {
	r := record{
		Format: RecordFormat, StoreID: c.StoreID, Seq: c.Seq, Time: c.Time.Format(recordTime),
		Actor: c.Actor, Session: c.Session, Message: c.Message, Key: c.Key,
		Prev: c.Prev, Digest: c.Digest, Versions: make([]recordVersion, len(c.Versions)),
	}
	for i, v := range c.Versions {
		r.Versions[i] = recordVersion{
			ID: v.ID, MemoryID: v.MemoryID, Parent: v.Parent, Op: v.Op,
			Payload: c.Seals[i].Payload, Salt: hex.EncodeToString(c.Seals[i].Salt[:]),
			Path: v.Path, From: v.From, SHA256: v.Digest, Size: v.Size,
		}
	}
	return json.Marshal(r)
}

// DecodeRecord reads a record and checks that its payloads and its own digest
// hold. That Prev is the digest of the record before is for the caller to
// check. Errors: ErrFormat, ErrCorrupt.
func DecodeRecord(data []byte) (*Commit, error) {
	var r record
	if err := json.Unmarshal(data, &struct {
		Format *int `json:"format"`
	}{&r.Format}); err != nil {
		return nil, fmt.Errorf("commit record: %w: %w", ErrCorrupt, err)
	}
	if r.Format > RecordFormat {
		return nil, fmt.Errorf("commit record has format %d, this mneme reads up to %d: %w; use a newer mneme", r.Format, RecordFormat, ErrFormat)
	}
	if r.Format < 1 {
		return nil, fmt.Errorf("commit record: %w: format %d", ErrCorrupt, r.Format)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("commit record: %w: %w", ErrCorrupt, err)
	}
	c, err := r.commit()
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
		StoreID: r.StoreID, Seq: r.Seq, Time: at, Actor: r.Actor, Session: r.Session, Message: r.Message,
		Key: r.Key, Prev: r.Prev, Digest: r.Digest,
		Versions: make([]Version, len(r.Versions)), Seals: make([]Seal, len(r.Versions)),
	}
	for i, rv := range r.Versions {
		v := Version{
			ID: rv.ID, MemoryID: rv.MemoryID, Parent: rv.Parent, Seq: r.Seq, Op: rv.Op,
			Path: rv.Path, From: rv.From, Digest: rv.SHA256, Size: rv.Size,
			Actor: r.Actor, Session: r.Session, Time: at, Message: r.Message,
		}
		salt, err := hex.DecodeString(rv.Salt)
		if err != nil || len(salt) != len(Salt{}) {
			return nil, fmt.Errorf("version %s has no valid salt", rv.ID)
		}
		c.Versions[i] = v
		c.Seals[i] = Seal{Salt: Salt(salt), Payload: rv.Payload}
	}
	return c, c.Verify()
}

// Verify checks that the commit's payloads and its own digest hold. That Prev
// is the digest of the commit before is for the caller to check.
func (c *Commit) Verify() error {
	if len(c.Seals) != len(c.Versions) {
		return fmt.Errorf("it has %d versions and %d seals", len(c.Versions), len(c.Seals))
	}
	for i := range c.Versions {
		if v := &c.Versions[i]; payloadDigest(c.Seals[i].Salt, v) != c.Seals[i].Payload {
			return fmt.Errorf("payload of version %s does not match its digest", v.ID)
		}
	}
	if chainDigest(c) != c.Digest {
		return errors.New("it does not match its digest")
	}
	return nil
}

// payloadDigest binds the erasable fields of a version under its salt.
func payloadDigest(salt Salt, v *Version) Digest {
	h := sha256.New()
	h.Write([]byte("mneme payload v1\n"))
	writeField(h, "salt", hex.EncodeToString(salt[:]))
	writeField(h, "path", v.Path)
	writeField(h, "from", v.From)
	writeField(h, "sha256", hexOrEmpty(v.Digest))
	writeField(h, "size", strconv.FormatInt(v.Size, 10))
	return Digest(h.Sum(nil))
}

// chainDigest binds a commit, and through Prev all before it.
func chainDigest(c *Commit) Digest {
	h := sha256.New()
	h.Write([]byte("mneme commit v1\n"))
	writeField(h, "store_id", c.StoreID)
	writeField(h, "seq", strconv.FormatUint(c.Seq, 10))
	writeField(h, "time", c.Time.Format(recordTime))
	writeField(h, "actor_kind", string(c.Actor.Kind))
	writeField(h, "actor_id", c.Actor.ID)
	writeField(h, "session", c.Session)
	writeField(h, "message", c.Message)
	writeField(h, "key", c.Key)
	writeField(h, "prev", hexOrEmpty(c.Prev))
	for i, v := range c.Versions {
		writeField(h, "version", v.ID)
		writeField(h, "memory_id", v.MemoryID)
		writeField(h, "parent", v.Parent)
		writeField(h, "op", string(v.Op))
		writeField(h, "payload", hexOrEmpty(c.Seals[i].Payload))
	}
	return Digest(h.Sum(nil))
}

// writeField writes "name length:value\n". The length makes the encoding
// unambiguous whatever bytes the value holds.
func writeField(h hash.Hash, name, value string) {
	fmt.Fprintf(h, "%s %d:%s\n", name, len(value), value)
}

func hexOrEmpty(d Digest) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}
