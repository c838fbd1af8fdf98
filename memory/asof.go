package memory

import (
	"context"
	"fmt"
)

// OpenAt returns the store of an id as it was right after the commit of a sequence number,
// for reading. Its history ends there, and nothing is added to it. versionlog.ErrNotFound:
// no such commit exists. It also loses versions that are erased from the store later, see
// Store.Follow.
func (l *Library) OpenAt(ctx context.Context, id string, seq uint64) (*Store, error) {
	s, err := l.Open(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	log, err := newPastLog(ctx, l.log, id, seq)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", s.info.Slug, err)
	}
	s.log, s.can, s.asOf = log, log.Capabilities(), &seq
	return s, nil
}

// EndsAt returns after which commit the store is shown, if that is not the newest (OpenAt).
func (s *Store) EndsAt() (seq uint64, past bool) {
	if s.asOf == nil {
		return 0, false
	}
	return *s.asOf, true
}
