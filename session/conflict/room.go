package conflict

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// How much is kept of a store's conflicts, open and settled, in number and in bytes of
// their texts. A single one is kept however large it is.
const (
	MaxOfSession      = 1000
	MaxBytesOfSession = 64 << 20
	MaxOfStore        = 5000
	MaxBytesOfStore   = 512 << 20
)

// ErrFull says that a store keeps as many conflicts as it may, most of them of other
// sessions.
var ErrFull = errors.New("the store keeps as many conflicts as it may; settle some, and remove what is settled")

// amount is a number of conflicts, and the bytes of their texts.
type amount struct {
	conflicts int
	bytes     int64
}

func (a *amount) add(b brief, times int) {
	a.conflicts += times
	a.bytes += int64(times) * b.bytes
}

func (a amount) exceeds(most amount) bool {
	return a.conflicts > most.conflicts || a.bytes > most.bytes && a.conflicts > 1
}

// bytes is how much is kept of a conflict.
func (a About) bytes() int64 {
	bytes := a.Size
	for _, side := range []*Side{a.Base, a.Theirs} {
		if side != nil {
			bytes += side.Size
		}
	}
	return bytes
}

// room is how much is kept at most, and a cache of the kept conflicts.
type room struct {
	ofSession, ofStore amount // at most

	mu    sync.Mutex // guards known
	known map[int]brief
}

// brief is what of a conflict hardly ever changes: only Rewrite does it.
type brief struct {
	session string
	bytes   int64
	changed time.Time // the directory's time of modification, by which another process's Rewrite shows
}

func newRoom() room {
	return room{
		ofSession: amount{MaxOfSession, MaxBytesOfSession}, ofStore: amount{MaxOfStore, MaxBytesOfStore},
		known: map[int]brief{},
	}
}

// HasRoom reports whether a session may keep n more conflicts with bytes of texts, if nothing is
// removed for them: ErrFull.
func (s *Store) HasRoom(session string, n int, bytes int64) error {
	kept, err := s.briefs()
	if err != nil || n == 0 {
		return err
	}
	ofSession, ofStore := amount{n, bytes}, amount{n, bytes}
	for _, b := range kept.of {
		ofStore.add(b, 1)
		if b.session == session {
			ofSession.add(b, 1)
		}
	}
	if ofSession.exceeds(s.room.ofSession) || ofStore.exceeds(s.room.ofStore) {
		return fmt.Errorf("%w: there are %d, %d bytes, and %d, %d bytes, would come", ErrFull, ofStore.conflicts-n, ofStore.bytes-bytes, n, bytes)
	}
	return nil
}

// inTheWay returns the conflicts that must go before one is kept or rewritten: the
// oldest of its session, the settled ones first, and never itself. ErrFull where that is
// not enough, and where it may replace none. The caller has the last file locked.
func (s *Store) inTheWay(one About, replace bool) (older []int, err error) {
	kept, err := s.briefs()
	if err != nil {
		return nil, err
	}
	ofSession, ofStore := amount{1, one.bytes()}, amount{1, one.bytes()}
	var own []int // from the first that must go
	for _, id := range kept.ids {
		b := kept.of[id]
		if id == one.ID {
			continue
		}
		ofStore.add(b, 1)
		if b.session == one.Session {
			ofSession.add(b, 1)
			own = append(own, id)
		}
	}
	full := fmt.Errorf("%w: %d, %d bytes", ErrFull, ofStore.conflicts-1, ofStore.bytes-one.bytes())
	for ofSession.exceeds(s.room.ofSession) || ofStore.exceeds(s.room.ofStore) {
		if !replace || len(older) == len(own) {
			return nil, full
		}
		oldest := own[len(older)]
		older = append(older, oldest)
		ofSession.add(kept.of[oldest], -1)
		ofStore.add(kept.of[oldest], -1)
	}
	return older, nil
}

// removeEach removes conflicts, and returns those that it has removed itself. The caller
// has the last file locked, so that none is settled meanwhile.
func (s *Store) removeEach(ids []int) (removed []About, err error) {
	for _, id := range ids {
		about, err := s.About(id)
		if err == nil {
			err = s.Remove(id)
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return removed, err
		}
		if err == nil {
			removed = append(removed, about)
		}
	}
	return removed, nil
}

// briefly are conflicts in the order in which they make room.
type briefly struct {
	ids []int
	of  map[int]brief
}

// briefs returns all conflicts, of which only those are read that are new or rewritten.
func (s *Store) briefs() (all briefly, err error) {
	root, err := s.dir.Open()
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, err
	}
	open, err := openIDs(root)
	if err != nil {
		return all, err
	}
	settled, err := idsIn(root, settledDir) // second: one that is settled meanwhile is in both
	if err != nil {
		return all, err
	}
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	known := map[int]brief{}
	for n, id := range append(settled, open...) {
		if _, twice := known[id]; twice {
			continue
		}
		dir := dirOf(id)
		if n < len(settled) {
			dir = settledDirOf(id)
		}
		b, err := s.briefLocked(root, id, dir)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return all, err
		}
		known[id] = b
		all.ids = append(all.ids, id)
	}
	s.room.known = known
	all.of = known
	return all, nil
}

// briefLocked returns what is known of the conflict in a directory, or reads it. The caller
// has room.mu locked.
func (s *Store) briefLocked(root *os.Root, id int, dir string) (brief, error) {
	var changed time.Time
	if info, err := root.Lstat(dir); err == nil {
		changed = info.ModTime()
	}
	if b, there := s.room.known[id]; there && b.changed.Equal(changed) {
		return b, nil
	}
	about, err := s.About(id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return brief{session: unreadable}, nil
	}
	return brief{about.Session, about.bytes(), changed}, err
}

// unreadable is the session of a conflict whose description is damaged: no session's. It is
// a conflict of the store, and keeps no other from being kept.
const unreadable = "\x00"

// forget has a conflict read again that this process has rewritten: the times of a file
// system may be too coarse to show it.
func (s *Store) forget(id int) {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	delete(s.room.known, id)
}
