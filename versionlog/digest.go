package versionlog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// recordTime is how times stand in records and digests.
const recordTime = "2006-01-02T15:04:05.000000Z"

// Verify checks that the commit's payloads and its own digest hold. That Prev
// is the digest of the commit before is for the caller to check, and that versions
// that were redacted are named by an event of the history.
func (c *Commit) Verify() error {
	if c.Format < 1 || c.Format > RecordFormat {
		return fmt.Errorf("it has the format %d", c.Format)
	}
	if len(c.Seals) != len(c.Versions) {
		return fmt.Errorf("it has %d versions and %d seals", len(c.Versions), len(c.Seals))
	}
	if err := c.verifyAdditions(); err != nil {
		return err
	}
	for i := range c.Versions {
		v := &c.Versions[i]
		if v.Redacted() {
			if err := c.verifyErased(i); err != nil {
				return err
			}
			continue
		}
		if payloadDigest(c.Format, c.Seals[i].Salt, v) != c.Seals[i].Payload {
			return fmt.Errorf("payload of version %s does not match its digest", v.ID)
		}
	}
	if chainDigest(c) != c.Digest {
		return errors.New("it does not match its digest")
	}
	if c.Event != nil {
		return c.Event.validate()
	}
	return nil
}

// verifyAdditions checks what format 2 added.
func (c *Commit) verifyAdditions() error {
	spelled := slices.ContainsFunc(c.Versions, func(v Version) bool { return v.Spelling != "" })
	if c.Format == 1 && (c.Epoch != 1 || len(c.Meta) > 0 || c.Event != nil || spelled) {
		return errors.New("it has what format 1 has not")
	}
	if c.Epoch == 0 || c.Epoch > maxEpoch {
		return fmt.Errorf("it has the epoch %d; want 1 to %d", c.Epoch, uint64(maxEpoch))
	}
	if c.Event != nil && len(c.Versions) > 0 {
		return errTwoKinds
	}
	return nil
}

// verifyErased checks that a version has none of the fields that a redaction erases.
func (c *Commit) verifyErased(i int) error {
	v := &c.Versions[i]
	if v.From != "" || v.Spelling != "" || v.Size != 0 || !v.Digest.IsZero() || c.Seals[i].Salt != (Salt{}) {
		return fmt.Errorf("version %s has no path, but other fields that a redaction erases with it", v.ID)
	}
	return nil
}

// Erase returns the commit without path, content, size and salt of one of its versions,
// as a redaction leaves it. Its digests stay and still verify.
func (c *Commit) Erase(versionID string) *Commit {
	erased := *c
	erased.Versions, erased.Seals = slices.Clone(c.Versions), slices.Clone(c.Seals)
	for i := range erased.Versions {
		if v := &erased.Versions[i]; v.ID == versionID {
			v.Erase()
			erased.Seals[i].Salt = Salt{}
		}
	}
	return &erased
}

// payloadDigest binds the erasable fields of a version under its salt.
func payloadDigest(format int, salt Salt, v *Version) Digest {
	h := fmt.Appendf(make([]byte, 0, 1024), "mneme payload v%d\n", format)
	h = appendField(h, "salt", hex.EncodeToString(salt[:]))
	h = appendField(h, "path", v.Path)
	h = appendField(h, "from", v.From)
	if format > 1 {
		h = appendField(h, "spelling", v.Spelling)
	}
	h = appendField(h, "sha256", hexOrEmpty(v.Digest))
	h = appendField(h, "size", strconv.FormatInt(v.Size, 10))
	return sha256.Sum256(h)
}

// chainDigest binds a commit, and through Prev all before it.
func chainDigest(c *Commit) Digest {
	h := fmt.Appendf(make([]byte, 0, 1024), "mneme commit v%d\n", c.Format)
	h = appendField(h, "store_id", c.StoreID)
	h = appendField(h, "seq", strconv.FormatUint(c.Seq, 10))
	if c.Format > 1 {
		h = appendField(h, "epoch", strconv.FormatUint(c.Epoch, 10))
	}
	h = appendField(h, "time", c.Time.Format(recordTime))
	h = appendField(h, "actor_kind", string(c.Actor.Kind))
	h = appendField(h, "actor_id", c.Actor.ID)
	h = appendField(h, "session", c.Session)
	h = appendField(h, "message", c.Message)
	h = appendField(h, "key", c.Key)
	h = appendPairs(h, "meta", c.Meta)
	h = appendField(h, "prev", hexOrEmpty(c.Prev))
	if c.Event != nil {
		h = appendField(h, "event", string(c.Event.Kind))
		h = appendPairs(h, "field", c.Event.Fields)
	}
	for i, v := range c.Versions {
		h = appendField(h, "version", v.ID)
		h = appendField(h, "memory_id", v.MemoryID)
		h = appendField(h, "parent", v.Parent)
		h = appendField(h, "op", string(v.Op))
		h = appendField(h, "payload", hexOrEmpty(c.Seals[i].Payload))
	}
	return sha256.Sum256(h)
}

// appendPairs appends each pair as two fields, in the order of their names.
func appendPairs(h []byte, kind string, pairs map[string]string) []byte {
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		h = appendField(h, kind, name)
		h = appendField(h, "value", pairs[name])
	}
	return h
}

// appendField appends "name length:value\n". The length makes the encoding
// unambiguous whatever bytes the value holds.
func appendField(h []byte, name, value string) []byte {
	h = append(append(h, name...), ' ')
	h = append(strconv.AppendInt(h, int64(len(value)), 10), ':')
	return append(append(h, value...), '\n')
}

func hexOrEmpty(d Digest) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}
