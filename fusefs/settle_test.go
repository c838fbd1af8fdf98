package fusefs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
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
	unlock := r.locked()
	r.s.wroteLocked("/a")
	second := r.s.open["/a"]
	unlock()
	if second != nil {
		t.Errorf("open after a write: %v", second)
	}
	next := r.s.keep(loss{path: "/a", yours: []byte("one more, and more")}, first)
	r.stop()
	r.awaitTasks()
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

// TestConflictsMakeRoom: when a session keeps more than it may, its oldest conflict goes,
// and .mneme/errors says so; where the store is full, that the text is not kept.
func TestConflictsMakeRoom(t *testing.T) {
	r := newRig(t, "/a")
	r.keep()
	large := memory.NewHead(&versionlog.Version{ID: "memver_1", Size: conflict.MaxBytesOfSession})
	first := r.s.keep(loss{path: "/a", theirs: large, yours: []byte("first")}, 0)
	second := r.s.keep(loss{path: "/a", theirs: large, yours: []byte("second")}, 0)
	if ids, err := r.s.kept.IDs(); err != nil || !slices.Equal(ids, []int{second}) {
		t.Errorf("conflicts %v are kept (%v), want %d only", ids, err, second)
	}
	if text := string(r.s.errors.Lines()); !strings.Contains(text, fmt.Sprintf("conflict %d of \"notes:/a\"", first)) || !strings.Contains(text, "to make room") {
		t.Errorf("errors do not say what was removed:\n%s", text)
	}
	for i := range conflict.MaxBytesOfStore / conflict.MaxBytesOfSession {
		_, err := r.s.kept.Keep(conflict.About{Session: fmt.Sprint(i), Theirs: conflict.SideOf(large.Version())}, conflict.Texts{})
		r.must(err)
	}
	r.must(r.s.kept.Remove(second))
	if id := r.s.keep(loss{path: "/b", theirs: large, yours: []byte("third")}, 0); id != noConflict {
		t.Errorf("conflict %d is kept in a store that is full", id)
	}
	if text := string(r.s.errors.Lines()); !strings.Contains(text, conflict.ErrFull.Error()) {
		t.Errorf("errors do not say why the text is not kept:\n%s", text)
	}
}
