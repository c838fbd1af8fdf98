package fusefs

import (
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// TestUnlinkMeansTheName removes a file that another session moves elsewhere between
// the request's look at the tree and its commit.
func TestUnlinkMeansTheName(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.tree.Walk(t.Context()))
	r.wantLookup("/a", fuse.OK)
	n := r.s.tree.FindLocked("/a") // Unlink has looked, and unlocked
	r.move("/a", "/z")
	r.follow()
	_ = r.s.remove(n, "/a") // Unlink goes on
	r.follow()
	r.wantText("/z", "/a")
}

// TestScratchMovesWhereFileIs renames an editor's file in a directory where
// another session puts a file meanwhile.
func TestScratchMovesWhereFileIs(t *testing.T) {
	r := newRig(t, "/d/a")
	r.must(r.s.tree.Walk(t.Context()))
	r.close(r.dirty("/d/x~", "x"))
	m := r.startMove("/d/x~", "/d/y~") // Rename has looked, and unlocked
	r.remove("/d/a")
	r.write("/d", "file")
	r.follow()
	_ = r.fs.renameFile(m) // Rename goes on
	if r.s.tree.FindMemoryLocked("/d") == nil {
		t.Error("the tree does not have the file")
	}
}
