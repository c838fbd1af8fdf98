package fusefs

import (
	"cmp"
	"context"
	"syscall"

	"mneme/fusefs/tree"
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
	if err := fs.enterDir(m); err != nil {
		return err
	}
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

// enterDir brings a directory into the log that was in this mount only, and loses the name
// that kept it there.
func (fs *fileSystem) enterDir(m *move) error {
	fs.mu.RLock()
	path, ok := m.Entry.PathLocked()
	enters := ok && hindersDirLocked(m.To.ChildLocked(m.New)) == nil && isPassing(m.Old) && !isPassing(m.New) && !m.Entry.HoldsMemoriesLocked() && !m.Entry.HasMarkersLocked()
	mode := m.Entry.ModeLocked()
	fs.mu.RUnlock()
	if !enters {
		return nil
	}
	made := memory.Change{Action: versionlog.MakeDir, Path: path + "/", Expect: versionlog.ExpectAbsent()}
	//archtest:locked commit calls it with the lock
	err := m.s.commit([]memory.Change{made}, func(c *versionlog.Commit) {
		if !isErased(c) {
			m.s.tree.MadeDirLocked(m.From, m.Old, path, mode, &c.Versions[0])
		}
	})
	if isConflict(err) {
		return nil // the tree shows what another session made
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
	if !fromOK || !toOK { // pruned by another session's commit
		return "", "", false, syscall.ENOENT
	}
	if err := hindersDirLocked(m.To.ChildLocked(m.New)); err != nil {
		return "", "", false, err
	}
	if m.Entry.HoldsMemoriesLocked() || m.Entry.HasMarkersLocked() {
		if status := m.s.answerLocked(m.s.session.AdmitMove(from, to, m.s.headAtLocked)); !status.Ok() {
			return "", "", false, syscall.Errno(status)
		}
		return from, cmp.Or(m.To.SpellingOfLocked(to, m.As), to), false, nil
	}
	m.s.tree.TakeDirLocked(m.Move)
	return from, to, true, nil
}

// hindersDirLocked returns why a directory cannot replace the file or directory at a name; nil:
// it can, or there is nothing.
func hindersDirLocked(target *tree.Entry) error {
	switch {
	case target == nil:
	case !target.IsDir():
		return syscall.ENOTDIR
	case target.CountLocked() > 0 || target.HidesLocked():
		return syscall.ENOTEMPTY
	}
	return nil
}
