package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"mneme/cas"
	"mneme/versionlog"
)

// Log is the log of a server.
type Log struct {
	client     *client
	can        versionlog.Capabilities
	forgets    bool // the server has forget
	credential atomic.Pointer[known]

	mu    sync.Mutex // guards the fields below
	feeds map[string]*feed
	blobs map[string]*Blobs
	ended context.CancelFunc // ends what runs behind the calls
	life  context.Context    // of that
	work  sync.WaitGroup
}

var _ versionlog.Log = (*Log)(nil)

// Capabilities has MaxContent, Next and the capabilities of the server.
func (l *Log) Capabilities() versionlog.Capabilities { return l.can }

// Close ends the connections.
func (l *Log) Close() error {
	l.ended()
	l.work.Wait()
	l.client.close()
	return nil
}

// Blobs returns the blobs of a store. Two calls with one id return the same value.
func (l *Log) Blobs(storeID string) *Blobs {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.blobs[storeID]
	if b == nil {
		b = &Blobs{client: l.client, life: l.life, work: &l.work, storeID: storeID, waiting: map[cas.Digest]*get{}}
		l.blobs[storeID] = b
	}
	return b
}

func (l *Log) feed(storeID string) *feed {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.feeds[storeID]
	if f == nil {
		f = newFeed(l.life, &l.work, func(ctx context.Context, after uint64) ([]recorded, error) {
			return l.client.poll(ctx, storeID, after)
		})
		l.feeds[storeID] = f
	}
	return f
}

// pollAnew restarts all polls.
func (l *Log) pollAnew() {
	l.mu.Lock()
	feeds := slices.Collect(maps.Values(l.feeds))
	l.mu.Unlock()
	for _, f := range feeds {
		f.pollAnew()
	}
}

// saw notes that a store has a commit.
func (l *Log) saw(storeID string, seq uint64) {
	l.feed(storeID).saw(seq)
}

// made notes a commit that was just acknowledged.
func (l *Log) made(storeID string, c recorded) {
	l.feed(storeID).add(c)
}

// Wait is part of versionlog.Log. It reports at once each commit that the server learns of
// at once.
func (l *Log) Wait(ctx context.Context, storeID string, after uint64) error {
	return l.feed(storeID).wait(ctx, after)
}

// next is that of versionlog.Capabilities.
func (l *Log) next(ctx context.Context, storeID string, after uint64) ([]*versionlog.Commit, error) {
	return l.feed(storeID).next(ctx, after)
}
