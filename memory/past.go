package memory

import (
	"context"
	"time"

	"mneme/versionlog"
)

// At returns the store as it was right after the commit of a sequence number; 0 is before
// the first. versionlog.ErrNotFound: no such commit exists.
func (s *Store) At(ctx context.Context, seq uint64) (versionlog.State, error) {
	return s.log.At(ctx, s.info.ID, seq)
}

// SeqAt returns the sequence number of the newest commit that was made at a time or before;
// 0: there is none.
func (s *Store) SeqAt(ctx context.Context, at time.Time) (uint64, error) {
	return s.log.SeqAt(ctx, s.info.ID, at)
}
