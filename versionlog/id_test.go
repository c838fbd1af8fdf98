package versionlog

import (
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

func FuzzLocateVersion(f *testing.F) {
	f.Add(newVersionID(1, 0))
	f.Add("memver_")
	f.Fuzz(func(t *testing.T, id string) {
		seq, ordinal, err := LocateVersion(id)
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
