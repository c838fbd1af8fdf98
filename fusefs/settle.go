package fusefs

import (
	"errors"
	"slices"
	"time"

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

// openedLocked notes an open conflict of this session.
func (s *store) openedLocked(path string, id int) {
	if path != "" {
		s.open[path] = append(s.open[path], id)
	}
}

// isOpenLocked reports whether a conflict of this session is not settled. Its file may
// have another path by now than it was kept for.
func (s *store) isOpenLocked(id int) bool {
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
			s.openedLocked(about.Path, about.ID)
		}
	}
}

// wroteLocked notes that a write of this session to a path has succeeded.
func (s *store) wroteLocked(path string) {
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

// shownConflicts are a store's conflicts as .mneme shows them (virtual.Conflicts).
type shownConflicts struct {
	*conflict.Store
	s *store
}

// Own is true of the session's own.
func (c shownConflicts) Own(about conflict.About) bool { return about.Session == c.s.fs.opts.Session }

// Dismiss settles a conflict since the session says so.
func (c shownConflicts) Dismiss(about conflict.About) error {
	if err := c.s.settleConflict(about.ID, byDismissing); err != nil {
		return err
	}
	c.s.fs.mu.Lock()
	defer c.s.fs.mu.Unlock()
	c.s.closedLocked(about.Path, about.ID)
	return nil
}

// closedLocked notes that an open conflict of this session is settled. What
// .mneme/errors says of its path was the last of them.
func (s *store) closedLocked(path string, id int) {
	left := slices.DeleteFunc(s.open[path], func(other int) bool { return other == id })
	if s.open[path] = left; len(left) == 0 {
		delete(s.open, path)
		s.errors.Written(path)
	}
}

// expireKept removes conflicts that are too old, now and once a day.
func (s *store) expireKept() {
	if s.kept == nil || s.readOnly() {
		return
	}
	s.openedBefore()
	for {
		if err := s.kept.Expire(time.Now()); err != nil {
			s.fs.log.Warn("expire conflicts", "store", s.slug(), "err", err)
		}
		select {
		case <-s.fs.ctx.Done():
			return
		case <-time.After(24 * time.Hour):
		}
	}
}
