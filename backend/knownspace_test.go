package backend

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestKnownSpace: a disk is asked again after a while, and always where little more is free than is
// kept.
func TestKnownSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &knownSpace{}
		kept := func(int64) int64 { return 5 << 30 }
		if k.isAmple(kept) {
			t.Error("a disk that was never asked has ample space")
		}
		k.note(6<<30-1, 1<<40)
		if k.isAmple(kept) {
			t.Error("little more than the reserve is ample")
		}
		k.note(6<<30, 1<<40)
		if !k.isAmple(kept) {
			t.Error("1 GiB more than the reserve is not ample")
		}
		time.Sleep(spaceKnownFor)
		if k.isAmple(kept) {
			t.Error("what the disk had is not asked again")
		}
	})
}
