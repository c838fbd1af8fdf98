package fusefs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"mneme/session"
	"mneme/session/conflict"
)

// newSession makes the session of a store, which keeps what it loses in s.kept.
func (s *store) newSession() {
	opts := &s.fs.opts
	s.session = session.New(s.memory, &session.Options{
		ID: opts.Session, Strict: opts.Strict, Merge: opts.Merge, Conflicts: s.kept, Logger: s.fs.log,
		Followed: true, Face: "mount", Changed: s.markKnownLocked,
		Place: func(id int) string { return fmt.Sprintf(".mneme/conflicts/%d/yours", id) },
		Alias: func(path string) string {
			s.fs.mu.RLock()
			defer s.fs.mu.RUnlock()
			return s.aliasLocked(path)
		},
	})
	s.known, s.errors = s.session.Known(), s.session.Journal()
}

// shownConflicts are a store's conflicts as .mneme shows them (virtual.Conflicts).
type shownConflicts struct {
	*conflict.Store
	s *store
}

// IDs returns the numbers of those that the session may be shown.
func (c shownConflicts) IDs() ([]int, error) {
	ids, err := c.Store.IDs()
	return slices.DeleteFunc(ids, func(id int) bool {
		_, err := c.About(id)
		return errors.Is(err, conflict.ErrNotFound)
	}), err
}

// About returns one that the session may be shown.
func (c shownConflicts) About(id int) (conflict.About, error) {
	about, err := c.Store.About(id)
	if err == nil && !about.IsShownTo(c.s.fs.opts.Session) {
		return conflict.About{}, fmt.Errorf("conflict %d: %w", id, conflict.ErrNotFound)
	}
	return about, err
}

// Read returns a file of one that the session may be shown.
func (c shownConflicts) Read(id int, name string) ([]byte, error) {
	if _, err := c.About(id); errors.Is(err, conflict.ErrNotFound) {
		return nil, err
	}
	return c.Store.Read(id, name)
}

// Own is true of the session's own.
func (c shownConflicts) Own(about conflict.About) bool { return about.Session == c.s.fs.opts.Session }

// Dismiss settles a conflict since the session says so.
func (c shownConflicts) Dismiss(about conflict.About) error {
	err := c.s.session.Conflicts().Dismiss(about.ID, session.ByDismissing)
	switch {
	case errors.Is(err, conflict.ErrNotFound):
		return nil
	case err != nil:
		c.s.fs.log.Error("settle conflict", "store", c.s.slug(), "conflict", about.ID, "err", err)
	}
	return err
}

// expireKept removes conflicts that are too old, now and once a day. Those that this session
// has from an earlier mount are its own again.
func (s *store) expireKept() {
	if s.kept == nil || s.readOnly() {
		return
	}
	if err := s.session.Conflicts().Adopt(s.fs.since); err != nil {
		s.fs.log.Warn("list conflicts", "store", s.slug(), "err", err)
	}
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
