package fusefs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/session/conflict"
)

// A conflict is settled when its session writes to its path again, since the
// session has then decided what the memory is to be, or when the session removes
// the directory of the conflict. It stays on disk until it expires, and can be
// read below its number, but is not listed any more.

// How a conflict is settled.
const (
	byWriting    = "its session wrote to the path again"
	byDismissing = "its session dismissed it"
)

// opened notes an open conflict of this session. Caller holds fs.mu.
func (s *store) opened(path string, id int) {
	if path != "" {
		s.open[path] = append(s.open[path], id)
	}
}

// isOpen reports whether a conflict of this session is not settled. Its file may
// have another path by now than it was kept for. Caller holds fs.mu.
func (s *store) isOpen(id int) bool {
	for _, ids := range s.open {
		if slices.Contains(ids, id) {
			return true
		}
	}
	return false
}

// openedBefore notes the open conflicts that this session has from an earlier
// mount.
func (s *store) openedBefore() {
	list, err := s.kept.List()
	if err != nil {
		s.fs.log.Warn("list conflicts", "store", s.slug(), "err", err)
		return
	}
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	for _, about := range list {
		if about.Session == s.fs.opts.Session && about.Time.Before(s.fs.since) {
			s.opened(about.Path, about.ID)
		}
	}
}

// wrote notes that a write of this session to a path has succeeded.
// Caller holds fs.mu.
func (s *store) wrote(path string) {
	s.errors.Written(path)
	ids := s.open[path]
	if len(ids) == 0 {
		return
	}
	delete(s.open, path)
	s.fs.tasks.Go(func() {
		for _, id := range ids {
			_ = s.settleConflict(id, byWriting)
		}
	})
}

// settleConflict notes that a conflict is settled. One that is gone is settled.
func (s *store) settleConflict(id int, how string) error {
	err := s.kept.Settle(id, how, time.Now())
	if err != nil && !errors.Is(err, conflict.ErrNotFound) {
		s.fs.log.Error("settle conflict", "store", s.slug(), "conflict", id, "err", err)
		return err
	}
	return nil
}

// shownConflict is the conflict that a directory of .mneme/conflicts shows. Its
// fields are guarded by fileSystem.mu.
type shownConflict struct {
	id      int
	own     bool            // of this session, which may dismiss it
	settled bool            // and so not listed
	removed map[string]bool // files that a program has removed, on its way to the directory
}

// dismiss answers a request that removes a name below .mneme/conflicts: a file of
// a conflict, or with rmdir a conflict, which is settled then. It reports false
// for every other place.
func (fs *fileSystem) dismiss(dirID uint64, name string, rmdir bool) (fuse.Status, bool) {
	fs.mu.Lock()
	dir := fs.node(dirID)
	if dir == nil || dir.refresh == nil || dir.store.readOnly() {
		fs.mu.Unlock()
		return fuse.OK, false
	}
	s, n := dir.store, dir.children[name]
	shown := dir.shows
	if shown == nil && n != nil { // dir is the directory of all conflicts
		shown = n.shows
	}
	status := fuse.OK
	switch {
	case n == nil:
		status = fuse.ENOENT
	case n.isDir() != rmdir:
		status = fuse.Status(syscall.EISDIR)
		if rmdir {
			status = fuse.ENOTDIR
		}
	case !shown.own:
		s.errors.Add(s.conflictPath(shown.id), fmt.Sprintf("conflict %d of store %s is another session's; "+
			"only that session, or a person with `mneme conflicts`, can settle it", shown.id, s.slug()))
		status = fuse.EPERM
	}
	if !status.Ok() || !rmdir {
		if status.Ok() {
			shown.removed[name] = true
			fs.detach(n)
		}
		fs.mu.Unlock()
		return status, true
	}
	fs.mu.Unlock()
	about, _ := s.kept.About(shown.id)
	if err := s.settleConflict(shown.id, byDismissing); err != nil {
		return s.fail("remove", s.conflictPath(shown.id), err), true
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	s.dismissed[shown.id] = true
	if dir.children[name] == n {
		fs.detach(n)
	}
	s.closed(about.Path, shown.id)
	return fuse.OK, true
}

// closed notes that an open conflict of this session is settled. What
// .mneme/errors says of its path was the last of them. Caller holds fs.mu.
func (s *store) closed(path string, id int) {
	left := slices.DeleteFunc(s.open[path], func(other int) bool { return other == id })
	if s.open[path] = left; len(left) == 0 {
		delete(s.open, path)
		s.errors.Written(path)
	}
}

// conflictPath is the path of a conflict in the mount, for a message.
func (s *store) conflictPath(id int) string {
	return "/.mneme/conflicts/" + strconv.Itoa(id)
}
