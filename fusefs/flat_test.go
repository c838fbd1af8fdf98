package fusefs

import (
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// TestFlat holds that the kernel finds a store in the root of a flat mount, and hears there of
// others' changes.
func TestFlat(t *testing.T) {
	r := newRig(t, "/f", "/d/g")
	r.flatten()
	r.keepNotices()
	if root, _ := r.parent("/f"); root != fuse.FUSE_ROOT_ID {
		t.Errorf("the store is node %d", root)
	}
	r.wantText("/f", "/f")
	r.wantText("/d/g", "/d/g")
	r.wantNames("/", "d", "f")
	r.wantNames("/d", "g")
	r.wantLookup("/.mneme/status", fuse.OK)
	if status := r.save("/new", "mine", syscall.O_EXCL); !status.Ok() {
		t.Error(status)
	}
	r.wantStored("/new", "mine")
	kernel := &fakeKernel{}
	r.give(kernel)
	r.write("/theirs", "theirs")
	r.follow()
	r.awaitNotices()
	if !kernel.forgot(fuse.FUSE_ROOT_ID, "theirs") {
		t.Errorf("the kernel was told to forget %v", kernel.names)
	}
}

// TestFlatOfOne holds that a flat mount has one store.
func TestFlatOfOne(t *testing.T) {
	if m, err := Mount(t.Context(), t.TempDir(), nil, &Options{Flat: true}); err == nil {
		t.Errorf("no store is mounted: %v", m.Close())
	}
}

// TestFlatTakenOver holds that the root of a flat mount is to the kernel what it was when another
// process has taken the mount over.
func TestFlatTakenOver(t *testing.T) {
	r := newRig(t, "/f", "/d/g")
	r.flatten()
	journal := r.hand()
	r.wantText("/f", "/f")
	in := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: header(fuse.FUSE_ROOT_ID), Valid: fuse.FATTR_MODE | fuse.FATTR_MTIME, Mode: 0o500, Mtime: 1000}}
	var was, is fuse.AttrOut
	r.must(errOf(r.front().SetAttr(nil, in, &was)))
	for range 2 { // twice, since the number of the directory above the store is another each time
		r.noteAnswer()
		next, _ := r.takeOver(journal)
		r.must(errOf(next.front().GetAttr(nil, &fuse.GetAttrIn{InHeader: header(fuse.FUSE_ROOT_ID)}, &is)))
		if is.Mode != was.Mode || is.Mtime != 1000 || is.Ino != fuse.FUSE_ROOT_ID {
			t.Errorf("the root is %+v, and was %+v", is.Attr, was.Attr)
		}
		next.wantNames("/", "d", "f")
		if next.wantLookup("/f", fuse.OK).NodeId != r.wantLookup("/f", fuse.OK).NodeId {
			t.Error("a file has another number")
		}
		r, journal = next, next.hand()
	}
}
