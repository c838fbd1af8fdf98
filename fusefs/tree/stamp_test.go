package tree

import (
	"math"
	"testing"
	"time"
	"unsafe"
)

// TestStampKeepsAnyTime: programs may give a file any time, and see it again.
func TestStampKeepsAnyTime(t *testing.T) {
	for _, want := range []time.Time{
		{}, time.Unix(0, 0), time.Unix(-1, 999_999_999), time.Unix(1<<32, 1), time.Unix(-1<<32, 0),
		time.Date(1600, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
		time.Unix(math.MaxInt64>>1, 0), time.Now(),
	} {
		if got := newStamp(want).time(); !got.Equal(want) {
			t.Errorf("%v is kept as %v", want, got)
		}
	}
}

// TestEntryIsSmall: a store that is loaded has one for each memory.
func TestEntryIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Entry{}); size > 96 {
		t.Errorf("an entry takes %d bytes, want at most 96", size)
	}
}
