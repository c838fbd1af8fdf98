package fusefs

import (
	"testing"
)

// TestOvertakenOnce prepares a stage that is overtaken, and has been loaded since, to be
// appended to: it stays loaded.
func TestOvertakenOnce(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.walk(t.Context()))
	r.readOnce("/f")
	r.write("/f", "theirs")
	r.follow()
	defer r.locked()()
	n := r.s.find("/f")
	st := &stage{base: n.seen.Head(), overtaken: true, loaded: true, conflict: noConflict, writers: 1}
	n.stage = st
	if n.start(st, true); !st.loaded {
		t.Error("it is to be loaded again, without end")
	}
}
