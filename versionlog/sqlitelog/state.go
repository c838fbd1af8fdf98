package sqlitelog

import (
	"context"
	"fmt"
	"iter"
	"sort"
	"strings"
	"time"

	"mneme/versionlog"
)

// At returns the store as it was after a commit. If the database has an earlier format, it reads
// the history up to there.
func (l *Log) At(ctx context.Context, storeID string, seq uint64) (versionlog.State, error) {
	s, err := l.store(ctx, storeID)
	if err != nil {
		return nil, err
	}
	if seq > s.tip.Seq {
		return nil, fmt.Errorf("store %s: commit %d: %w; the newest is %d", s.Slug, seq, versionlog.ErrNotFound, s.tip.Seq)
	}
	if l.stores.format < pastFormat {
		return versionlog.Replay(seq, l.Commits(ctx, storeID, 0))
	}
	return &state{store: s.Slug, heads: headsThen(l.db, s.num, int64(seq))}, nil
}

// state is a versionlog.State.
type state struct {
	store string // its slug
	heads *heads
}

func (s *state) Head(ctx context.Context, path string) (versionlog.Version, error) {
	v, err := s.heads.one(ctx, path)
	if err != nil {
		return v, fmt.Errorf("store %s: %s: %w", s.store, path, err)
	}
	return v, nil
}

func (s *state) Heads(ctx context.Context, prefix, after string) iter.Seq2[versionlog.Version, error] {
	return named(s.store, s.heads.under(ctx, prefix, after))
}

func (s *state) Children(ctx context.Context, dir string) iter.Seq2[versionlog.Version, error] {
	return named(s.store, s.heads.in(ctx, strings.TrimSuffix(dir, "/")))
}

const timeOf = `SELECT time FROM commits WHERE store = ? AND seq = ?`

// SeqAt returns the newest commit that was made at a time or before. Times never go
// back, so it looks at as many commits as the number of the newest has bits.
func (l *Log) SeqAt(ctx context.Context, storeID string, at time.Time) (uint64, error) {
	s, err := l.store(ctx, storeID)
	if err != nil {
		return 0, err
	}
	later := sort.Search(int(s.tip.Seq), func(i int) bool {
		if err != nil {
			return false
		}
		var made int64
		made, err = queryOne(ctx, l.db, timeOf, scanMicros, s.num, int64(i+1))
		return made > at.UnixMicro()
	})
	if err != nil {
		return 0, fmt.Errorf("store %s: %w", s.Slug, err)
	}
	return uint64(later), nil
}
