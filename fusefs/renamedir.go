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
	end, err := m.s.movePrivate(m.FromPath, m.ToPath+"/"+m.New)
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
		}, func(c *versionlog.Commit) {
			if isErased(c) {
				m.s.bringErasedLocked(c, m.To, m.New)
				return
			}
			m.s.tree.MovedDirLocked(m.Move, c)
		})
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
	from, fromOK := m.Entry.PathLocked()
	to, toOK := m.To.ChildPathLocked(m.New)
	target := m.To.ChildLocked(m.New)
	switch {
	case !fromOK || !toOK: // pruned by another session's commit
		return "", "", false, syscall.ENOENT
	case target != nil && !target.IsDir():
		return "", "", false, syscall.ENOTDIR
	case target != nil && (target.CountLocked() > 0 || target.HidesLocked()):
		return "", "", false, syscall.ENOTEMPTY
	case m.Entry.HoldsMemoriesLocked() || m.Entry.HasMarkersLocked():
		if status := m.s.answerLocked(m.s.session.AdmitMove(from, to, m.s.headAtLocked)); !status.Ok() {
			return "", "", false, syscall.Errno(status)
		}
		return from, cmp.Or(m.To.SpellingOfLocked(to, m.As), to), false, nil
	}
	m.s.tree.TakeDirLocked(m.Move)
	return from, to, true, nil
}
