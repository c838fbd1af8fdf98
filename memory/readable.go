package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"mneme/versionlog"
)

// Gap is a range of commits whose records cannot be read, and why; the zero value is none.
type Gap struct {
	From, To uint64 // sequence numbers, both among them
	Why      string
}

// String names the commits.
func (g Gap) String() string {
	if g.From == g.To {
		return "commit " + strconv.FormatUint(g.From, 10)
	}
	return fmt.Sprintf("commits %d to %d", g.From, g.To)
}

// Extend has the gap reach to a number, and reports whether that is the next one for the same reason.
func (g *Gap) Extend(seq uint64, why string) bool {
	follows := g.From != 0 && g.To == seq-1 && g.Why == why
	if follows {
		g.To = seq
	}
	return follows
}

// Readable yields the commits up to one, oldest first, and passes over those whose records cannot
// be read: lose is called with the number of each, and why.
func (s *Store) Readable(ctx context.Context, to uint64, lose func(seq uint64, why string)) iter.Seq2[*versionlog.Commit, error] {
	return readable(ctx, s.log, s.info.ID, 0, to, lose)
}

// readable is Store.Readable of the commits of a log above one. A bad record ends the log's
// walk, so the walk starts again after that record.
func readable(ctx context.Context, log versionlog.Log, storeID string, after, to uint64, lose func(seq uint64, why string)) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		for after := after; after < to; {
			why := "there is no record"
			for c, err := range log.Commits(ctx, storeID, after) {
				if errors.Is(err, versionlog.ErrCorrupt) {
					why = err.Error()
					break
				}
				if err != nil {
					yield(nil, err)
					return
				}
				if c.Seq != after+1 || c.Seq > to {
					break
				}
				if !yield(c, nil) {
					return
				}
				after = c.Seq
			}
			if after < to {
				after++
				lose(after, why)
			}
		}
	}
}
