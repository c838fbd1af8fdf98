package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"mneme/gateway/wire"
	"mneme/versionlog"
)

// maxPolled bounds how many commits are taken at once, and maxPolledBytes how many bytes their
// records have before no more are, whatever the server sends.
const (
	maxPolled      = 1000
	maxPolledBytes = 16 << 20
)

// An answer to a follower goes on for maxAlive times AliveTime at most. One of no commits that
// comes sooner than after emptyTime is not followed by the next request at once.
const (
	maxAlive  = int(wire.PollTime/wire.AliveTime) + 2
	emptyTime = time.Second
)

// poll asks the server once for the commits above one: none came, when the time was over.
func (c *client) poll(ctx context.Context, storeID string, after uint64) (commits []recorded, err error) {
	r, err := newRequest(wire.OpFollow, &wire.Ask{Store: storeID, Seq: after})
	if err != nil {
		return nil, err
	}
	r.patience, r.lasts = wire.AliveTime*5/2, true
	alive, bytes, began := 0, 0, time.Now()
	err = c.do(ctx, r, func(answer *http.Response) error {
		commits = nil
		return readItems(answer, func() error {
			if alive++; alive > maxAlive {
				return &wire.BadError{Err: errors.New("it waits for longer than a follower does")}
			}
			if time.Since(began) < wire.PollTime+wire.AliveTime {
				r.began = time.Now()
			}
			return nil
		}, func(items *wire.ItemReader) (recorded, error) {
			one, n, err := readRecord(items)
			bytes += n
			return recorded{one, n}, err
		}, func(one recorded) error {
			var last **versionlog.Commit
			if n := len(commits); n > 0 {
				last = &commits[n-1].Commit
			}
			if err := c.rules.follows(storeID, after)(last, one.Commit); err != nil {
				return fmt.Errorf("%w: %w", ErrProtocol, err)
			}
			if commits = append(commits, one); len(commits) == maxPolled || bytes > maxPolledBytes {
				return errStop
			}
			return nil
		})
	}, func() { alive, bytes = 0, 0 })
	if errors.Is(err, errStop) {
		err = nil
	}
	if rest := emptyTime - time.Since(began); err == nil && len(commits) == 0 && rest > 0 {
		timer := time.NewTimer(rest)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return commits, err
}
