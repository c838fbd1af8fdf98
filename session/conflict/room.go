package conflict

import (
	"errors"
	"fmt"
	"sync"
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

// room is how much is kept at most, and what is known of what is kept.
type room struct {
	ofSession, ofStore amount // at most

	mu    sync.Mutex // guards known
	known map[int]brief
}

// brief is what of a conflict hardly ever changes.
type brief struct {
	session string
	bytes   int64
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

// MakeRoom removes the oldest conflicts of a session, the settled ones first, so that it
// may keep one more, and returns what it has removed. Conflicts of other sessions are
// never removed: ErrFull. Two callers at once may make room for one only.
func (s *Store) MakeRoom(one About) (removed []About, err error) {
	kept, err := s.briefs()
	if err != nil {
		return nil, err
	}
	ofSession, ofStore := amount{1, one.bytes()}, amount{1, one.bytes()}
	var own []int // from the first that is to go
	for _, id := range kept.ids {
		b := kept.of[id]
		ofStore.add(b, 1)
		if b.session == one.Session {
			ofSession.add(b, 1)
			own = append(own, id)
		}
	}
	for ofSession.exceeds(s.room.ofSession) || ofStore.exceeds(s.room.ofStore) {
		if len(own) == 0 {
			return removed, fmt.Errorf("%w: %d, %d bytes", ErrFull, ofStore.conflicts-1, ofStore.bytes-one.bytes())
		}
		oldest := own[0]
		own = own[1:]
		about, err := s.About(oldest)
		if err == nil {
			err = s.Remove(oldest)
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return removed, err
		}
		if err == nil {
			removed = append(removed, about)
		}
		ofSession.add(kept.of[oldest], -1)
		ofStore.add(kept.of[oldest], -1)
	}
	return removed, nil
}

// briefly are conflicts in the order in which they make room.
type briefly struct {
	ids []int
	of  map[int]brief
}

// briefs returns all conflicts, of which only those are read that are new.
func (s *Store) briefs() (all briefly, err error) {
	open, err := s.IDs()
	if err != nil {
		return all, err
	}
	settled, err := s.SettledIDs() // second: one that is settled meanwhile is in both
	if err != nil {
		return all, err
	}
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	known := map[int]brief{}
	for _, id := range append(settled, open...) {
		if _, twice := known[id]; twice {
			continue
		}
		b, there := s.room.known[id]
		if !there {
			about, err := s.About(id)
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return all, err
			}
			b = brief{about.Session, about.bytes()}
		}
		known[id] = b
		all.ids = append(all.ids, id)
	}
	s.room.known = known
	all.of = known
	return all, nil
}
