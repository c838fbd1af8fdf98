package fusefs

import (
	"slices"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/conflict"
)

// TestLossAfterSettling: what a handle loses after its conflict was settled is
// another conflict, whether the disk has heard of the first one's end or not.
func TestLossAfterSettling(t *testing.T) {
	r := newRig(t)
	r.keep()
	first := r.s.keep(loss{path: "/a", yours: []byte("one")}, 0)
	if same := r.s.keep(loss{path: "/a", yours: []byte("one more")}, first); same != first {
		t.Fatalf("what a handle went on to lose is conflict %d, want %d", same, first)
	}
	r.fs.mu.Lock()
	r.s.wrote("/a")
	second := r.s.open["/a"]
	r.fs.mu.Unlock()
	if second != nil {
		t.Errorf("open after a write: %v", second)
	}
	next := r.s.keep(loss{path: "/a", yours: []byte("one more, and more")}, first)
	r.stop()
	r.fs.tasks.Wait()
	open, err := r.s.kept.IDs()
	r.must(err)
	if next == first || !slices.Equal(open, []int{next}) {
		t.Errorf("conflict %d was settled, then %d was kept; open are %v", first, next, open)
	}
	for id, want := range map[int]string{first: "one more", next: "one more, and more"} {
		if yours, err := r.s.kept.Read(id, conflict.YoursFile); err != nil || string(yours) != want {
			t.Errorf("conflict %d holds %q, %v, want %q", id, yours, err, want)
		}
	}
}

// TestOneConflictOfARenamedFile loses more of a file that another session has
// overwritten, and then renamed: it is one conflict.
func TestOneConflictOfARenamedFile(t *testing.T) {
	r := newRig(t, "/f")
	r.keep()
	r.must(r.s.walk(t.Context()))
	r.wantText("/f", "/f")
	fh := r.dirtyWith("/f", "mine", syscall.O_WRONLY)
	r.write("/f", "theirs")
	r.follow()
	for _, more := range []string{"more", "and more"} {
		if _, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh, Offset: 4}, []byte(more)); status != fuse.Status(DefaultConflictErrno) {
			t.Errorf("a write to what is lost: %v", status)
		}
		if more == "more" {
			r.move("/f", "/g")
			r.follow()
		}
	}
	ids, err := r.s.kept.IDs()
	if err != nil || len(ids) != 1 {
		t.Errorf("conflicts %v, %v; want one", ids, err)
	}
	if !r.kept("mineand more") {
		t.Error("what was written last is not kept")
	}
}
