package fusefs

import (
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// TestOvertakenOnce prepares a stage that is overtaken, and has been loaded since, to be
// appended to: it stays loaded.
func TestOvertakenOnce(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.tree.Walk(t.Context()))
	r.readOnce("/f")
	r.write("/f", "theirs")
	r.follow()
	defer r.locked()()
	n := r.s.tree.FindLocked("/f")
	st := &stage{written: written{base: knownLocked(n).Head(), overtaken: true, loaded: true, conflict: session.NotKept}, writers: 1}
	setStageLocked(n, st)
	if startLocked(n, st, true); !st.loaded {
		t.Error("it is to be loaded again, without end")
	}
}

// TestGivenUpInTurn fails to commit what can never be committed: it is given up before the
// next save of the file has its turn, so that it is not kept once more.
func TestGivenUpInTurn(t *testing.T) {
	r := newRig(t)
	for path, err := range map[string]error{"/overlap": versionlog.ErrOverlap, "/big": memory.ErrTooBig, "/archived": versionlog.ErrArchived} {
		givenUp := r.commitFails(r.dirty(path, "mine"), err)
		if want := err != versionlog.ErrArchived; givenUp != want {
			t.Errorf("%v: given up: %v, want %v", err, givenUp, want)
		}
	}
}

// TestAppendWithoutProgress appends to a file that the log has and the tree,
// wrongly, has not: when the same version has stood against it often enough, it
// loses.
func TestAppendWithoutProgress(t *testing.T) {
	r := newRig(t, "/f")
	r.keep()
	r.must(r.s.tree.Walk(t.Context()))
	r.wantLookup("/f", fuse.OK)
	r.loseFromTree("/f")
	fh := r.appended("/f", "mine")
	if status := r.close(fh); status != fuse.Status(DefaultConflictErrno) {
		t.Errorf("close: %v, want a conflict", status)
	}
	if n := r.s.tries.Load(); n > 3*50 { // when it is closed, and when it is released
		t.Errorf("%d commits were tried", n)
	}
	if !r.kept("mine") {
		t.Error("what was appended is not kept")
	}
}
