package fusefs

import (
	"cmp"
	"context"
	"syscall"

	"mneme/memory"
	"mneme/versionlog"
)

// renameDir moves a directory with all memories below it in one commit.
func (fs *fileSystem) renameDir(m *move) error {
	end, err := m.s.movePrivate(m.fromPath, m.toPath+"/"+m.new)
	if err != nil {
		return err
	}
	err = fs.moveDir(m)
	end(err == nil)
	return err
}

func (fs *fileSystem) moveDir(m *move) error {
	from, to, done, err := fs.beginRenameDir(m)
	if done || err != nil {
		return err
	}
	for range 5 { // what other sessions write meanwhile moves along
		err = m.s.commitBy(func(ctx context.Context, opts *memory.CommitOptions) (*versionlog.Commit, error) {
			return m.s.memory.Rename(ctx, from, to, opts)
			//archtest:locked commitBy calls it with the lock
		}, func(c *versionlog.Commit) { m.s.movedDirLocked(m.moving, c) })
		if !isConflict(err) {
			break
		}
	}
	return err
}

// beginRenameDir checks the rename of a directory against the tree. One that
// holds no memories moves at once, under the same lock, so that none can arrive
// in between. The new path is spelled as the program does.
func (fs *fileSystem) beginRenameDir(m *move) (from, to string, done bool, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	from, fromOK := m.n.path()
	to, toOK := m.to.childPath(m.new)
	target := m.to.children[m.new]
	switch {
	case !fromOK || !toOK: // pruned by another session's commit
		return "", "", false, syscall.ENOENT
	case target != nil && !target.isDir():
		return "", "", false, syscall.ENOTDIR
	case target != nil && (len(target.children) > 0 || target.hides()):
		return "", "", false, syscall.ENOTEMPTY
	case m.n.holdsMemoriesLocked() || m.n.hasMarkersLocked():
		return from, cmp.Or(m.to.spellingOfLocked(to, m.as), to), false, nil
	}
	m.s.takeDirLocked(m.moving)
	return from, to, true, nil
}
