package versionlog

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestIDs(t *testing.T) {
	for pattern, id := range map[string]string{
		`^memstore_[0-9a-hjkmnp-tv-z]{26}$`: NewStoreID(),
		`^mem_[0-9a-hjkmnp-tv-z]{26}$`:      newMemoryID(time.Now()),
		`^memver_[0-9a-hjkmnp-tv-z]{26}$`:   newVersionID(1, 0),
		`^[0-9a-hjkmnp-tv-z]{26}$`:          NewKey(),
	} {
		if !regexp.MustCompile(pattern).MatchString(id) {
			t.Errorf("%q does not match %s", id, pattern)
		}
	}
	seen := map[string]bool{}
	for range 1000 {
		for _, id := range []string{NewKey(), newVersionID(1, 0)} {
			if seen[id] {
				t.Fatalf("%s was made twice", id)
			}
			seen[id] = true
		}
	}
}

func TestVersionIDs(t *testing.T) {
	last := ""
	for _, place := range []struct {
		seq     uint64
		ordinal int
	}{{0, 0}, {1, 0}, {1, 1}, {1, 255}, {1, 256}, {1, MaxChanges - 1}, {2, 0}, {255, 9}, {256, 0}, {1 << 40, 1}, {maxSeq, MaxChanges - 1}} {
		id := newVersionID(place.seq, place.ordinal)
		seq, ordinal, err := LocateVersion(id)
		if err != nil || seq != place.seq || ordinal != place.ordinal {
			t.Errorf("%s is at %d, %d, %v; want %d, %d", id, seq, ordinal, err, place.seq, place.ordinal)
		}
		if id <= last {
			t.Errorf("%s does not sort after %s", id, last)
		}
		last = id
	}
}

func TestLocateVersionRefuses(t *testing.T) {
	id := newVersionID(1, 0)
	for _, bad := range []string{
		"", "memver_", id[:len(id)-1], id + "0", strings.ToUpper(id), NewStoreID(), "memver_" + strings.Repeat("i", 26),
		"memver_" + strings.Repeat("0", 25) + "\n", " " + id, id + "\r", id[:10] + "\n" + id[10:],
		"memver_" + strings.Repeat("0", 25) + "1",
	} {
		if _, _, err := LocateVersion(bad); err == nil {
			t.Errorf("%q was taken for an id", bad)
		}
	}
}

// TestIDBytes says that an id and its 16 bytes are one and the same, in the same order.
func TestIDBytes(t *testing.T) {
	codecs := []struct {
		prefix string
		format func([16]byte) string
		parse  func(string) ([16]byte, error)
	}{{versionPrefix, FormatVersionID, ParseVersionID}, {memoryPrefix, FormatMemoryID, ParseMemoryID}}
	random := rand.New(rand.NewPCG(1, 2))
	for _, codec := range codecs {
		last, lastID := [16]byte{}, codec.format([16]byte{})
		if lastID != codec.prefix+strings.Repeat("0", 26) {
			t.Errorf("zeros are %q", lastID)
		}
		for range 1000 {
			var b [16]byte
			binary.BigEndian.PutUint64(b[:8], random.Uint64())
			binary.BigEndian.PutUint64(b[8:], random.Uint64())
			id := codec.format(b)
			got, err := codec.parse(id)
			if err != nil || got != b {
				t.Fatalf("%x is %q, which parses to %x, %v", b, id, got, err)
			}
			if bytes.Compare(b[:], last[:]) != strings.Compare(id, lastID) {
				t.Fatalf("%q and %q do not sort as %x and %x", id, lastID, b, last)
			}
			last, lastID = b, id
		}
	}
	if b, err := ParseVersionID(newMemoryID(time.Now())); err == nil || b != [16]byte{} {
		t.Errorf("the id of a memory is that of the version %x, %v", b, err)
	}
	if b, err := ParseMemoryID(newVersionID(1, 0)); err == nil || b != [16]byte{} {
		t.Errorf("the id of a version is that of the memory %x, %v", b, err)
	}
	id := newVersionID(1, 0)
	if n := testing.AllocsPerRun(100, func() { _, _ = ParseVersionID(id) }); n != 0 {
		t.Errorf("parsing an id allocates %v times", n)
	}
}

func FuzzLocateVersion(f *testing.F) {
	f.Add(newVersionID(1, 0))
	f.Add("memver_")
	f.Fuzz(func(t *testing.T, id string) {
		seq, ordinal, err := LocateVersion(id)
		b, parseErr := ParseVersionID(id)
		if (err == nil) != (parseErr == nil) || err == nil && FormatVersionID(b) != id {
			t.Fatalf("%q parses to %q, %v; it is located with %v", id, FormatVersionID(b), parseErr, err)
		}
		if err == nil && (seq > maxSeq || ordinal < 0 || ordinal >= MaxChanges || len(id) != len(versionPrefix)+26 || strings.ContainsAny(id, "\r\n")) {
			t.Fatalf("%q is at %d, %d", id, seq, ordinal)
		}
	})
}

func TestMemoryTime(t *testing.T) {
	for _, at := range []time.Time{
		time.UnixMilli(0), time.UnixMilli(1), time.Date(2026, 11, 25, 8, 30, 0, 123_999_999, time.UTC), time.UnixMilli(1<<48 - 1),
	} {
		got, err := MemoryTime(newMemoryID(at))
		if want := at.Truncate(time.Millisecond); err != nil || !got.Equal(want) {
			t.Errorf("a memory of %v is of %v, %v", want, got, err)
		}
	}
	for _, bad := range []string{"", "mem_", newVersionID(1, 0), NewStoreID(), newMemoryID(time.Now()) + "0"} {
		if at, err := MemoryTime(bad); err == nil {
			t.Errorf("%q was taken for a memory of %v", bad, at)
		}
	}
}
