package sqlitelog

import (
	"context"
	"sync"
	"sync/atomic"

	"mneme/internal/sqlite"
)

// How many frames the write-ahead log has, at least, when it is carried over into the database: beside
// the commits, and within one that finds it that long.
const (
	carriedFrom = 1000
	carriedMost = 4 * carriedFrom
)

// carrier carries the write-ahead log of a database over beside the commits: SQLite does that within
// one of them, which takes as long as some twenty others then. Most of it is carried while others
// write, and the rest in the writers' turn, so that the next commit begins at its start again.
type carrier struct {
	db     *sqlite.DB
	inTurn func(ctx context.Context, mode string) (bool, error) // carries it over while nothing else in this process writes
	full   chan struct{}
	last   atomic.Uint32 // how many frames there were when it was last told to
	stop   context.CancelFunc
	done   sync.WaitGroup
}

func startCarrier(db *sqlite.DB, inTurn func(ctx context.Context, mode string) (bool, error)) *carrier {
	ctx, stop := context.WithCancel(context.Background())
	c := &carrier{db: db, inTurn: inTurn, full: make(chan struct{}, 1), stop: stop}
	c.done.Go(func() { c.run(ctx) })
	return c
}

// note says how many frames there are.
func (c *carrier) note(frames uint32) {
	if c == nil {
		return
	}
	last := c.last.Load()
	if frames < carriedFrom || frames >= last && frames-last < carriedFrom {
		return
	}
	c.last.Store(frames)
	select {
	case c.full <- struct{}{}:
	default:
	}
}

func (c *carrier) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.full:
		}
		_ = c.db.With(ctx, func(conn *sqlite.Conn) error { return conn.Script(`PRAGMA wal_checkpoint(PASSIVE)`) })
		_, _ = c.inTurn(ctx, "PASSIVE")
	}
}

func (c *carrier) close() {
	if c == nil {
		return
	}
	c.stop()
	c.done.Wait()
}
