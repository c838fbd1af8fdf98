package memory

import (
	"fmt"
	"testing"
	"time"

	"mneme/cas"
	"mneme/versionlog"
)

// TestUnclaimedBytes: a content counts once, until a commit names it or `mneme gc` may take it.
func TestUnclaimedBytes(t *testing.T) {
	var u unclaimed
	began := time.Now()
	digest := func(i int) cas.Digest { return cas.Sum(fmt.Append(nil, i)) }
	is := func(what string, after time.Duration, want int64) {
		t.Helper()
		if n := u.bytes("a", began.Add(after)); n != want*block {
			t.Errorf("%s: %d bytes, want %d", what, n, want*block)
		}
	}
	for i := range 3 {
		u.add("a", digest(i), 1, began.Add(time.Duration(i)*time.Hour))
	}
	u.add("b", digest(0), 1, began)
	is("three", 2*time.Hour, 3)
	u.add("a", digest(0), 2*block, began.Add(3*time.Hour))
	is("one of them put again", 3*time.Hour, 4)
	is("the oldest is too old", unclaimedFor+time.Hour+1, 3)
	u.claim("a", []versionlog.Change{{Digest: digest(2)}, {Digest: digest(9)}})
	is("one that is named", unclaimedFor+time.Hour+1, 2)
	is("all are too old", unclaimedFor+3*time.Hour+1, 0)
	u.claim("b", []versionlog.Change{{Digest: digest(0)}})
	if len(u.stores) != 0 {
		t.Errorf("%d stores are kept", len(u.stores))
	}
}

// BenchmarkUnclaimed puts a content into a store with many that no commit has named.
func BenchmarkUnclaimed(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var u unclaimed
			for i := range n {
				u.add("a", cas.Sum(fmt.Append(nil, i)), 1, time.Now())
			}
			for b.Loop() {
				u.bytes("a", time.Now())
				u.add("a", cas.Digest{}, 1, time.Now())
			}
		})
	}
}
