package fusefs

import (
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
)

// filesBelow is how many files are below a directory. Caller holds fs.mu.
func filesBelow(n *tree.Entry) (sum tree.Counts) {
	for _, c := range n.ChildrenLocked() {
		switch {
		case c.IsDir():
			below := filesBelow(c)
			sum.Memories += below.Memories
			sum.Uncommitted += below.Uncommitted
		case c.IsUnloggedLocked() || stageOf(c) != nil && stageOf(c).dirty:
			sum.Uncommitted++
		default:
			sum.Memories++
		}
	}
	return sum
}

// TestTally: a store knows how many files it has, whatever happens to them.
func TestTally(t *testing.T) {
	r := newRig(t, "/a", "/b", "/d/c", "/e/f")
	var fh uint64
	for _, step := range []struct {
		what string
		do   func()
		want tree.Counts
	}{
		{"nothing has loaded", func() {}, tree.Counts{}},
		{"all has loaded", func() { r.must(r.s.tree.Walk(t.Context())) }, tree.Counts{Memories: 4}},
		{"a file is written", func() { fh = r.dirtyWith("/a", "mine", syscall.O_RDWR) }, tree.Counts{Memories: 3, Uncommitted: 1}},
		{"it is closed", func() { r.must(errOf(r.close(fh))) }, tree.Counts{Memories: 4}},
		{"a file is hidden", func() { r.must(errOf(r.rename("/a", "/a~", 0))) }, tree.Counts{Memories: 3, Uncommitted: 1}},
		{"it comes back", func() { r.must(errOf(r.rename("/a~", "/a", 0))) }, tree.Counts{Memories: 4}},
		{"a file is hidden", func() { r.must(errOf(r.rename("/a", "/a~", 0))) }, tree.Counts{Memories: 3, Uncommitted: 1}},
		{"it comes back under another name", func() { r.must(errOf(r.rename("/a~", "/g", 0))) }, tree.Counts{Memories: 4}},
		{"a temporary file is saved", func() { r.must(errOf(r.save("/t.tmp", "text", 0))) }, tree.Counts{Memories: 4, Uncommitted: 1}},
		{"it replaces a memory", func() { r.must(errOf(r.rename("/t.tmp", "/g", 0))) }, tree.Counts{Memories: 4}},
		{"a scratch file is saved", func() { r.must(errOf(r.save("/d/x~", "text", 0))) }, tree.Counts{Memories: 4, Uncommitted: 1}},
		{"its directory is renamed", func() { r.must(errOf(r.rename("/d", "/dd", 0))) }, tree.Counts{Memories: 4, Uncommitted: 1}},
		{"another session puts a file in the place of the directory", func() {
			r.remove("/dd/c")
			r.write("/dd", "theirs")
			r.follow()
		}, tree.Counts{Memories: 4}},
		{"others rename and remove", func() {
			r.remove("/b")
			_, err := r.other.Rename(t.Context(), "/e/f", "/h", nil)
			r.must(err)
			r.follow()
		}, tree.Counts{Memories: 3}},
		{"a file is removed", func() { r.must(errOf(r.unlink("/h"))) }, tree.Counts{Memories: 2}},
		{"a file is made", func() { fh, _ = r.make("/n") }, tree.Counts{Memories: 2, Uncommitted: 1}},
		{"another session has made it", func() {
			r.write("/n", "theirs")
			r.follow()
		}, tree.Counts{Memories: 3}},
	} {
		step.do()
		if r.wantCounted(); r.s.tree.CountsLocked() != step.want {
			t.Errorf("when %s the store counts %+v, want %+v", step.what, r.s.tree.CountsLocked(), step.want)
		}
	}
	r.fs.Release(nil, &fuse.ReleaseIn{Fh: fh})
	r.wantCounted()
}
