package barefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// As mneme does, it answers at once what needs nothing but the tree.

func (b *fileSystem) InlineOpen(in *fuse.OpenIn, out *fuse.OpenOut) (fuse.Status, bool) {
	if !b.quiet && in.Flags&syscall.O_ACCMODE != syscall.O_RDONLY && in.Flags&syscall.O_TRUNC == 0 {
		return fuse.OK, false // it reads what is there
	}
	return b.Open(nil, in, out), true
}

// Interrupted implements fusedev.Inline: nothing waits.
func (b *fileSystem) Interrupted(func(fuse.Status)) {}

func (b *fileSystem) InlineCreate(in *fuse.CreateIn, name string, out *fuse.CreateOut) (fuse.Status, bool) {
	return b.Create(nil, in, name, out), true
}

func (b *fileSystem) InlineRelease(in *fuse.ReleaseIn) bool {
	b.Release(nil, in)
	return true
}

func (b *fileSystem) InlineOpenDir(in *fuse.OpenIn, out *fuse.OpenOut) (fuse.Status, bool) {
	return b.OpenDir(nil, in, out), true
}

func (b *fileSystem) InlineReleaseDir(in *fuse.ReleaseIn) bool {
	b.ReleaseDir(in)
	return true
}

func (b *fileSystem) InlineLookup(header *fuse.InHeader, name string, out *fuse.EntryOut) (fuse.Status, bool) {
	return b.Lookup(nil, header, name, out), true
}

func (b *fileSystem) InlineGetAttr(in *fuse.GetAttrIn, out *fuse.AttrOut) (fuse.Status, bool) {
	return b.GetAttr(nil, in, out), true
}

func (b *fileSystem) InlineWrite(in *fuse.WriteIn, data []byte) (uint32, fuse.Status, bool) {
	size, status := b.Write(nil, in, data)
	return size, status, true
}
