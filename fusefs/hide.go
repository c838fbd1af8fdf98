package fusefs

import (
	"context"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/versionlog"
)

// bury removes from the log what is hidden in the directory that had a name, which
// something else is about to get: a hidden file itself, or another. Callers have
// claimed the name.
func (s *store) bury(dir *tree.Entry, name string, itself *tree.Entry) error {
	s.fs.mu.Lock()
	var hidden []*tree.Entry
	note := func(h *tree.Entry) {
		if h != itself {
			hidden = append(hidden, h)
		}
	}
	if d := dir.HiddenDirLocked(name); d != nil {
		d.EachHiddenLocked(note)
	}
	if d := dir.ChildLocked(name); d != nil && d.CountLocked() == 0 { // that it replaces
		d.EachHiddenLocked(note)
	}
	var changes []memory.Change
	for _, h := range hidden {
		path, _ := h.LogPathLocked()
		changes = append(changes, memory.Change{Action: versionlog.Remove, Path: path, Expect: versionlog.ExpectVersion(h.HeadLocked().ID())})
	}
	s.fs.mu.Unlock()
	if changes == nil {
		return nil
	}
	//archtest:locked commit calls it with the lock
	return s.commit(changes, func(*versionlog.Commit) {
		for _, h := range hidden {
			s.tree.UnhideLocked(h)
		}
	})
}

// buryFor is bury for a request that makes a file.
func (fs *fileSystem) buryFor(ctx context.Context, dir *tree.Entry, name string) fuse.Status {
	canonical, err := memory.ParseName(name)
	fs.mu.RLock()
	there := err == nil && dir.HiddenDirLocked(canonical) != nil
	fs.mu.RUnlock()
	if !there {
		return fuse.OK
	}
	release, status := storeOf(dir).claimNames(ctx, nameIn{dir, name})
	if !status.Ok() {
		return status
	}
	defer release()
	if err := storeOf(dir).bury(dir, canonical, nil); err != nil {
		return storeOf(dir).fail("create", name, err)
	}
	return fuse.OK
}
