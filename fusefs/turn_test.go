package fusefs

import (
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// TestTurns: who appends lets others have their turn when he has just appended
// on top of another session's version, and only then.
func TestTurns(t *testing.T) {
	r := newRig(t, "/f", "/g")
	r.options().Session = "mine"
	r.must(r.s.walk(t.Context()))
	write := func(path string, flags uint32) {
		t.Helper()
		fh, status := r.open(r.wantLookup(path, fuse.OK).NodeId, syscall.O_WRONLY|flags)
		if !status.Ok() {
			t.Fatal(status)
		}
		if _, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh, Offset: 2, Flags: flags}, []byte("mine")); !status.Ok() {
			t.Fatal(status)
		}
		if status := r.close(fh); !status.Ok() {
			t.Fatal(status)
		}
		r.follow()
	}
	write("/f", 0)
	if r.s.turn.path != "" {
		t.Errorf("who does not append had a turn: %v", r.s.turn)
	}
	r.write("/g", "theirs")
	r.follow()
	write("/g", syscall.O_APPEND)
	had := r.s.turn
	if had.path != "/g" || had.took <= 0 {
		t.Errorf("who appended to another session's new version had the turn %v", had)
	}
	write("/g", syscall.O_APPEND)
	if r.s.turn != had {
		t.Errorf("who appended to his own version had the turn %v", r.s.turn)
	}
}
