package versionlog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
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

// verifyErased checks that nothing is left of what a redaction erases.
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
	h := sha256.New()
	fmt.Fprintf(h, "mneme payload v%d\n", format)
	writeField(h, "salt", hex.EncodeToString(salt[:]))
	writeField(h, "path", v.Path)
	writeField(h, "from", v.From)
	if format > 1 {
		writeField(h, "spelling", v.Spelling)
	}
	writeField(h, "sha256", hexOrEmpty(v.Digest))
	writeField(h, "size", strconv.FormatInt(v.Size, 10))
	return Digest(h.Sum(nil))
}

// chainDigest binds a commit, and through Prev all before it.
func chainDigest(c *Commit) Digest {
	h := sha256.New()
	fmt.Fprintf(h, "mneme commit v%d\n", c.Format)
	writeField(h, "store_id", c.StoreID)
	writeField(h, "seq", strconv.FormatUint(c.Seq, 10))
	if c.Format > 1 {
		writeField(h, "epoch", strconv.FormatUint(c.Epoch, 10))
	}
	writeField(h, "time", c.Time.Format(recordTime))
	writeField(h, "actor_kind", string(c.Actor.Kind))
	writeField(h, "actor_id", c.Actor.ID)
	writeField(h, "session", c.Session)
	writeField(h, "message", c.Message)
	writeField(h, "key", c.Key)
	writePairs(h, "meta", c.Meta)
	writeField(h, "prev", hexOrEmpty(c.Prev))
	if c.Event != nil {
		writeField(h, "event", string(c.Event.Kind))
		writePairs(h, "field", c.Event.Fields)
	}
	for i, v := range c.Versions {
		writeField(h, "version", v.ID)
		writeField(h, "memory_id", v.MemoryID)
		writeField(h, "parent", v.Parent)
		writeField(h, "op", string(v.Op))
		writeField(h, "payload", hexOrEmpty(c.Seals[i].Payload))
	}
	return Digest(h.Sum(nil))
}

// writePairs writes each pair as two fields, in the order of their names.
func writePairs(h hash.Hash, kind string, pairs map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		writeField(h, kind, name)
		writeField(h, "value", pairs[name])
	}
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
