package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"mneme/versionlog"
)

// run is a range of sequence numbers; the zero value is none.
type run struct {
	from, to uint64
	why      string
}

func (r run) String() string {
	if r.from == r.to {
		return "commit " + strconv.FormatUint(r.from, 10)
	}
	return fmt.Sprintf("commits %d to %d", r.from, r.to)
}

// extend has the run reach to a number, if that is the next one for the same reason.
func (r *run) extend(seq uint64, why string) bool {
	follows := r.from != 0 && r.to == seq-1 && r.why == why
	if follows {
		r.to = seq
	}
	return follows
}

// readable yields the commits up to one, oldest first, and passes over those whose records cannot
// be read: lose is called with the number of each, and why.
func (s *Store) readable(ctx context.Context, to uint64, lose func(seq uint64, why string)) iter.Seq2[*versionlog.Commit, error] {
	return readable(ctx, s.log, s.info.ID, 0, to, lose)
}

// readable is Store.readable of the commits of a log above one. A bad record ends the log's walk, so
// it is begun anew behind it.
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
