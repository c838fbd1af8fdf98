package fusefs

import (
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// files is how many files are below a directory. Caller holds fs.mu.
func (n *node) files() (sum tally) {
	for _, c := range n.children {
		switch {
		case c.isDir():
			below := c.files()
			sum.memories += below.memories
			sum.uncommitted += below.uncommitted
		case c.local || c.stage() != nil && c.stage().dirty:
			sum.uncommitted++
		default:
			sum.memories++
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
		want tally
	}{
		{"nothing has loaded", func() {}, tally{}},
		{"all has loaded", func() { r.must(r.s.walk(t.Context())) }, tally{memories: 4}},
		{"a file is written", func() { fh = r.dirtyWith("/a", "mine", syscall.O_RDWR) }, tally{memories: 3, uncommitted: 1}},
		{"it is closed", func() { r.must(errOf(r.close(fh))) }, tally{memories: 4}},
		{"a file is hidden", func() { r.must(errOf(r.rename("/a", "/a~", 0))) }, tally{memories: 3, uncommitted: 1}},
		{"it comes back", func() { r.must(errOf(r.rename("/a~", "/a", 0))) }, tally{memories: 4}},
		{"a file is hidden", func() { r.must(errOf(r.rename("/a", "/a~", 0))) }, tally{memories: 3, uncommitted: 1}},
		{"it comes back under another name", func() { r.must(errOf(r.rename("/a~", "/g", 0))) }, tally{memories: 4}},
		{"a temporary file is saved", func() { r.must(errOf(r.save("/t.tmp", "text", 0))) }, tally{memories: 4, uncommitted: 1}},
		{"it replaces a memory", func() { r.must(errOf(r.rename("/t.tmp", "/g", 0))) }, tally{memories: 4}},
		{"a scratch file is saved", func() { r.must(errOf(r.save("/d/x~", "text", 0))) }, tally{memories: 4, uncommitted: 1}},
		{"its directory is renamed", func() { r.must(errOf(r.rename("/d", "/dd", 0))) }, tally{memories: 4, uncommitted: 1}},
		{"another session puts a file in the place of the directory", func() {
			r.remove("/dd/c")
			r.write("/dd", "theirs")
			r.follow()
		}, tally{memories: 4}},
		{"others rename and remove", func() {
			r.remove("/b")
			_, err := r.other.Rename(t.Context(), "/e/f", "/h", nil)
			r.must(err)
			r.follow()
		}, tally{memories: 3}},
		{"a file is removed", func() { r.must(errOf(r.unlink("/h"))) }, tally{memories: 2}},
		{"a file is made", func() { fh, _ = r.make("/n") }, tally{memories: 2, uncommitted: 1}},
		{"another session has made it", func() {
			r.write("/n", "theirs")
			r.follow()
		}, tally{memories: 3}},
	} {
		step.do()
		if r.wantCounted(); r.s.tally != step.want {
			t.Errorf("when %s the store counts %+v, want %+v", step.what, r.s.tally, step.want)
		}
	}
	r.fs.Release(nil, &fuse.ReleaseIn{Fh: fh})
	r.wantCounted()
}
