package fusefs

import (
	"errors"
	"strconv"
	"syscall"
	"time"

	"mneme/session/conflict"
)

// makeKept makes .mneme/conflicts, which shows what is kept of the store's
// conflicts, whichever session lost, where the store can be written. Other processes add and remove some, so
// every look at the directory looks at the disk.
func (s *store) makeKept() {
	if s.kept == nil || s.readOnly() {
		return
	}
	dir := s.fs.newNode(s, syscall.S_IFDIR|s.fs.perm(0o755), s.fs.since)
	dir.refresh = func() { s.refreshKept(dir) }
	attach(s.control, "conflicts", dir)
}

// refreshKept brings the directory of conflicts up to date.
func (s *store) refreshKept(dir *node) {
	open, err := s.kept.IDs()
	settled, errSettled := s.kept.SettledIDs() // second: one that is settled meanwhile is in both
	if err := errors.Join(err, errSettled); err != nil {
		s.fs.log.Error("list conflicts", "store", s.slug(), "err", err)
		return
	}
	there := map[string]bool{}
	for i, id := range append(open, settled...) {
		there[strconv.Itoa(id)] = true
		s.showConflict(dir, id, i >= len(open))
	}
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	for name, n := range dir.children {
		if !there[name] {
			s.fs.detach(n)
		}
	}
}

// showConflict brings the directory of a conflict into that of all.
func (s *store) showConflict(dir *node, id int, settled bool) {
	name := strconv.Itoa(id)
	s.fs.mu.RLock()
	n := dir.children[name]
	known, gone := n != nil && n.shows.settled == settled, s.dismissed[id]
	s.fs.mu.RUnlock()
	if known || gone {
		return
	}
	about, err := s.kept.About(id)
	own := err == nil && about.Session == s.fs.opts.Session
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	if n = dir.children[name]; n == nil && !s.dismissed[id] {
		n = s.fs.newNode(s, syscall.S_IFDIR|s.fs.perm(0o555), time.Now())
		if own {
			n.mode |= 0o200
		}
		n.refresh = func() { s.refreshConflict(n, id) }
		n.shows = &shownConflict{id: id, own: own, removed: map[string]bool{}}
		attach(dir, name, n)
	}
	if n != nil {
		n.shows.settled = settled
	}
}

// refreshConflict brings the directory of one conflict up to date.
func (s *store) refreshConflict(dir *node, id int) {
	lengths := map[string]int64{}
	for _, name := range []string{conflict.BaseFile, conflict.TheirsFile, conflict.YoursFile, conflict.AboutFile} {
		if data, err := s.kept.Read(id, name); err == nil && data != nil {
			lengths[name] = int64(len(data))
		}
	}
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	for name, length := range lengths {
		if dir.shows.removed[name] {
			continue
		}
		n := dir.children[name]
		if n == nil {
			n = s.fs.newNode(s, syscall.S_IFREG|s.fs.perm(0o444), time.Now())
			n.generate = func() []byte {
				data, _ := s.kept.Read(id, name) // resolved meanwhile: empty
				return data
			}
			attach(dir, name, n)
		}
		n.length = length
	}
}

// freshen prepares a directory that is about to be looked at.
func (fs *fileSystem) freshen(id uint64) {
	fs.mu.RLock()
	n := fs.node(id)
	fs.mu.RUnlock()
	if n != nil && n.refresh != nil {
		n.refresh()
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
