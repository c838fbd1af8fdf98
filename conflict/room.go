package conflict

import (
	"errors"
	"fmt"
	"slices"
)

// How much is kept of a store's conflicts, open and settled, in number and in bytes of
// their texts. A single one is kept however large it is.
const (
	MaxOfSession      = 200
	MaxBytesOfSession = 64 << 20
	MaxOfStore        = 2000
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

func (a *amount) add(of About, times int) {
	a.conflicts += times
	a.bytes += int64(times) * of.bytes()
}

func (a amount) exceeds(conflicts int, bytes int64) bool {
	return a.conflicts > conflicts || a.bytes > bytes && a.conflicts > 1
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

// MakeRoom removes the oldest conflicts of a session, the settled ones first, so that it
// may keep one more, and returns what it has removed. Conflicts of other sessions are
// never removed: ErrFull. Two callers at once may make room for one only.
func (s *Store) MakeRoom(one About) (removed []About, err error) {
	list, err := s.ListAll()
	if err != nil {
		return nil, err
	}
	var own []About
	var ofSession, ofStore amount
	ofSession.add(one, 1)
	ofStore.add(one, 1)
	for _, about := range list {
		if ofStore.add(about, 1); about.Session == one.Session {
			ofSession.add(about, 1)
			own = append(own, about)
		}
	}
	slices.SortStableFunc(own, func(a, b About) int {
		switch aSettled := !a.Settled.IsZero(); {
		case aSettled == !b.Settled.IsZero():
			return a.ID - b.ID
		case aSettled:
			return -1
		}
		return 1
	})
	for ofSession.exceeds(MaxOfSession, MaxBytesOfSession) || ofStore.exceeds(MaxOfStore, MaxBytesOfStore) {
		if len(own) == 0 {
			return removed, fmt.Errorf("%w: %d, %d bytes", ErrFull, ofStore.conflicts-1, ofStore.bytes-one.bytes())
		}
		oldest := own[0]
		own = own[1:]
		if err := s.Remove(oldest.ID); err != nil && !errors.Is(err, ErrNotFound) {
			return removed, err
		}
		removed = append(removed, oldest)
		ofSession.add(oldest, -1)
		ofStore.add(oldest, -1)
	}
	return removed, nil
}
