package fusefs

import (
	"context"
	"maps"
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/versionlog"
)

// bury removes from the log what is hidden in the directory that had a name, and that
// directory, whose name something else is about to get: a hidden file itself, or another. Where that is a
// directory, the memory that is hidden under the name itself goes, too. Callers have
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
	if h := dir.HiddenAtLocked(name); h != nil && itself != nil && itself.IsDir() {
		note(h)
	}
	s.fs.mu.Unlock()
	if err := s.buryAll(hidden); err != nil {
		return err
	}
	s.fs.mu.Lock()
	var emptied map[string]uint64
	if path, ok := dir.ChildPathLocked(name); ok {
		emptied = s.tree.EmptiedBelowLocked(path)
	}
	s.fs.mu.Unlock()
	for _, path := range slices.Backward(slices.Sorted(maps.Keys(emptied))) { // what is in one, first
		s.removeEmptiedDir(path, emptied[path])
	}
	return nil
}

// buryFile is bury for a directory that is made: what is hidden in one comes back with it.
func (s *store) buryFile(dir *tree.Entry, name string) error {
	s.fs.mu.RLock()
	h := dir.HiddenAtLocked(name)
	s.fs.mu.RUnlock()
	if h == nil {
		return nil
	}
	return s.buryAll([]*tree.Entry{h})
}

// buryAll removes from the log what is hidden.
func (s *store) buryAll(hidden []*tree.Entry) error {
	var changes []memory.Change
	s.fs.mu.RLock()
	for _, h := range hidden {
		if path, ok := h.LogPathLocked(); ok {
			changes = append(changes, memory.Change{Action: versionlog.Remove, Path: path, Expect: versionlog.ExpectVersion(h.HeadLocked().ID())})
		}
	}
	s.fs.mu.RUnlock()
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
	there := err == nil && (dir.HiddenDirLocked(canonical) != nil || storeOf(dir).tree.HasEmptied())
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
