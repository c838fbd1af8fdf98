package fusefs

import (
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
)

// newNameLocked checks that something may be made under a name in a directory, with
// room for below more segments, and returns the directory and the name's
// canonical form.
func (fs *fileSystem) newNameLocked(dirID uint64, name string, below int) (*tree.Entry, string, fuse.Status) {
	dir, status := fs.writableLocked(dirID)
	if !status.Ok() {
		return nil, "", status
	}
	canonical, err := memory.ParseName(name)
	if err == nil && dir.ChildLocked(canonical) == nil {
		err = memory.CheckNew(canonical)
	}
	if err != nil {
		return nil, "", storeOf(dir).fail("create", name, err)
	}
	path, ok := dir.ChildPathLocked(canonical)
	if !ok || dir.IsRemovedLocked() {
		return nil, "", fuse.ENOENT
	}
	if err := memory.CheckPath(path + strings.Repeat("/.", below)); err != nil {
		return nil, "", storeOf(dir).fail("create", path, err)
	}
	return dir, canonical, fuse.OK
}
