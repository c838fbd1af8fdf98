package fusefs

import (
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
)

const xattrPrefix = "user.mneme."

var xattrNames = []string{"version", "seq", "sha256", "memory_id", "actor", "session"}

// xattrLocked returns the value of a name after xattrPrefix, of a committed file.
func xattrLocked(n *tree.Entry, name string) (string, bool) {
	if !n.IsMemoryLocked() {
		return "", false
	}
	switch name {
	case "version":
		return n.HeadLocked().ID(), true
	case "seq":
		return strconv.FormatUint(n.HeadLocked().Seq(), 10), true
	case "sha256":
		return n.HeadLocked().Digest().String(), true
	case "memory_id":
		return n.HeadLocked().MemoryID(), true
	case "actor":
		return n.HeadLocked().Actor().String(), true
	case "session":
		return n.HeadLocked().Session(), true
	}
	return "", false
}

// GetXAttr implements fuse.RawFileSystem.
func (fs *fileSystem) GetXAttr(_ <-chan struct{}, header *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	name, ok := strings.CutPrefix(attr, xattrPrefix)
	switch {
	case ok:
	case strings.HasPrefix(attr, "user."):
		return 0, fuse.ENOATTR
	default: // of a namespace that is not there programs ask once per mount, not once per file
		return 0, fuse.Status(syscall.EOPNOTSUPP)
	}
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	n := fs.node(header.NodeId)
	if n == nil {
		return 0, fuse.Status(syscall.ESTALE)
	}
	value, ok := xattrLocked(n, name)
	if !ok {
		return 0, fuse.ENOATTR
	}
	return fill(dest, value)
}

// ListXAttr implements fuse.RawFileSystem.
func (fs *fileSystem) ListXAttr(_ <-chan struct{}, header *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	n := fs.node(header.NodeId)
	if n == nil {
		return 0, fuse.Status(syscall.ESTALE)
	}
	var names strings.Builder
	for _, name := range xattrNames {
		if _, ok := xattrLocked(n, name); ok {
			names.WriteString(xattrPrefix + name + "\x00")
		}
	}
	return fill(dest, names.String())
}

// fill answers an xattr request; a short buffer learns how long it must be.
func fill(dest []byte, value string) (uint32, fuse.Status) {
	if len(dest) < len(value) {
		return uint32(len(value)), fuse.ERANGE
	}
	return uint32(copy(dest, value)), fuse.OK
}

// SetXAttr implements fuse.RawFileSystem. A program that copies a file with its attributes has
// listed those of mneme, and sets them at the copy, which has its own: that succeeds, and changes
// nothing.
func (fs *fileSystem) SetXAttr(_ <-chan struct{}, in *fuse.SetXAttrIn, attr string, _ []byte) fuse.Status {
	return fs.changeXAttr(in.NodeId, attr)
}

// RemoveXAttr implements fuse.RawFileSystem. rsync removes what the source of a copy
// does not have.
func (fs *fileSystem) RemoveXAttr(_ <-chan struct{}, header *fuse.InHeader, attr string) fuse.Status {
	return fs.changeXAttr(header.NodeId, attr)
}

// changeXAttr answers a request to change an attribute. mv, which moves a file here
// from another file system, complains of every error but this one.
func (fs *fileSystem) changeXAttr(id uint64, attr string) fuse.Status {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	n, status := fs.writableLocked(id)
	if !status.Ok() {
		return status
	}
	if name, ok := strings.CutPrefix(attr, xattrPrefix); ok && !n.IsDir() && slices.Contains(xattrNames, name) {
		return fuse.OK
	}
	return fuse.Status(syscall.EOPNOTSUPP)
}
