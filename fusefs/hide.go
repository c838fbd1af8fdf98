package fusefs

import (
	"context"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
	"mneme/versionlog"
)

// bury removes from the log what is hidden in the directory that had a name, which
// something else is about to get: a hidden file itself, or another. Callers have
// claimed the name.
func (s *store) bury(dir *node, name string, itself *node) error {
	s.fs.mu.Lock()
	var hidden []*node
	note := func(h *node) {
		if h != itself {
			hidden = append(hidden, h)
		}
	}
	if d := dir.hiddenDirs[name]; d != nil {
		d.eachHidden(note)
	}
	if d := dir.children[name]; d != nil && len(d.children) == 0 { // that it replaces
		d.eachHidden(note)
	}
	var changes []memory.Change
	for _, h := range hidden {
		path, _ := h.logPath()
		changes = append(changes, memory.Change{Action: versionlog.Remove, Path: path, Expect: versionlog.ExpectVersion(h.head.ID())})
	}
	s.fs.mu.Unlock()
	if changes == nil {
		return nil
	}
	//archtest:locked commit calls it with the lock
	return s.commit(changes, func(*versionlog.Commit) {
		for _, h := range hidden {
			s.unhideLocked(h)
		}
	})
}

// buryFor is bury for a request that makes a file.
func (fs *fileSystem) buryFor(ctx context.Context, dir *node, name string) fuse.Status {
	canonical, err := memory.ParseName(name)
	fs.mu.RLock()
	there := err == nil && dir.hiddenDirs[canonical] != nil
	fs.mu.RUnlock()
	if !there {
		return fuse.OK
	}
	release, status := dir.store.claimNames(ctx, nameIn{dir, name})
	if !status.Ok() {
		return status
	}
	defer release()
	if err := dir.store.bury(dir, canonical, nil); err != nil {
		return dir.store.fail("create", name, err)
	}
	return fuse.OK
}
