package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"mneme/internal/testing/turn"
	"mneme/memory"
	"mneme/versionlog"
)

// storeHistory makes calls of one store from many goroutines and records them.
type storeHistory struct {
	start time.Time
	mu    sync.Mutex // guards calls
	calls []storeCall
}

// historyWork says how much to do. Every episode has a store of its own, which
// keeps a history short enough to be checked.
type historyWork struct {
	clients, calls, episodes int // calls of each client in each episode
	seed                     uint64
	blindAppends             bool // a mistake: appends expect nothing
}

// run makes the calls of one episode, on stores in turn, which are one store
// opened several times.
func (w historyWork) run(ctx context.Context, episode uint64, stores ...*memory.Store) []storeCall {
	h := &storeHistory{start: time.Now()}
	var work sync.WaitGroup
	for i := range w.clients {
		c := &historyClient{
			h: h, store: stores[i%len(stores)], name: fmt.Sprint(i), seen: map[string]string{},
			random: rand.New(rand.NewPCG(w.seed+episode, uint64(i))), blindAppends: w.blindAppends,
		}
		work.Go(func() {
			for range w.calls {
				c.step(ctx)
			}
		})
	}
	work.Wait()
	return h.calls
}

var historyPaths = []string{"/a", "/b", "/c", "/d/x", "/d/y"}

type historyClient struct {
	h      *storeHistory
	store  *memory.Store
	name   string
	n      int
	random *rand.Rand
	seen   map[string]string // version id by path

	blindAppends bool
}

func (c *historyClient) path() string { return historyPaths[c.random.IntN(len(historyPaths))] }

// text is content that no other client writes.
func (c *historyClient) text() string {
	c.n++
	return fmt.Sprintf("%s.%d ", c.name, c.n)
}

func (c *historyClient) step(ctx context.Context) {
	switch n := c.random.IntN(20); {
	case n < 6:
		c.read(ctx, c.path())
	case n < 7:
		c.record(storeCall{kind: callTip}, func(call *storeCall) error {
			return insist(func() error {
				tip, err := c.store.Tip(ctx)
				call.seq = tip.Seq
				return err
			})
		})
	case n < 10:
		c.append(ctx, c.path())
	default:
		call := storeCall{kind: callBatch, changes: []callChange{c.change(c.path())}}
		if other := c.change(c.path()); c.random.IntN(4) == 0 && separate(call.changes[0], other) {
			call.changes = append(call.changes, other)
		}
		c.record(call, func(call *storeCall) error { return c.commit(ctx, call, call.changes) })
	}
}

func separate(a, b callChange) bool {
	return a.path != b.path && a.path != b.to && a.to != b.path && (a.to == "" || a.to != b.to)
}

func (c *historyClient) change(path string) callChange {
	change := callChange{action: versionlog.Put, path: path, text: c.text()}
	switch n := c.random.IntN(10); {
	case n < 2:
		change = callChange{action: versionlog.Remove, path: path}
	case n < 4:
		if to := c.path(); to != path {
			change = callChange{action: versionlog.Rename, path: path, to: to}
		}
	}
	change.expect = callExpect(c.random.IntN(3))
	if seen := c.seen[path]; seen != "" && c.random.IntN(2) == 0 {
		change.expect, change.version = expectThis, seen
	}
	return change
}

func (c *historyClient) read(ctx context.Context, path string) {
	c.record(storeCall{kind: callRead, path: path}, func(call *storeCall) error {
		v, data, err := c.fetch(ctx, path)
		call.versions, call.content = []versionlog.Version{v}, string(data)
		return err
	})
}

func (c *historyClient) fetch(ctx context.Context, path string) (v versionlog.Version, data []byte, err error) {
	err = insist(func() error {
		v, data, err = c.store.Read(ctx, path)
		return err
	})
	return v, data, err
}

// append appends to the memory, and retries until that succeeds.
func (c *historyClient) append(ctx context.Context, path string) {
	c.record(storeCall{kind: callAppend, path: path, text: c.text()}, func(call *storeCall) error {
		for {
			v, data, err := c.fetch(ctx, path)
			change := callChange{action: versionlog.Put, path: path, text: string(data) + call.text, expect: expectThis, version: v.ID}
			if errors.Is(err, versionlog.ErrNotFound) {
				change.expect = expectAbsence
			} else if err != nil {
				return err
			}
			if c.blindAppends {
				change.expect = expectNone
			}
			if err := c.commit(ctx, call, []callChange{change}); !errors.Is(err, versionlog.ErrConflict) {
				return err
			}
		}
	})
}

// commit makes changes, again under the same key when it is not told how that
// ended.
func (c *historyClient) commit(ctx context.Context, call *storeCall, changes []callChange) error {
	var batch []memory.Change
	for _, change := range changes {
		c := memory.Change{Action: change.action, Path: change.path, To: change.to, Expect: change.expectation()}
		if change.action == versionlog.Put {
			c.Content = []byte(change.text)
		}
		batch = append(batch, c)
	}
	opts := &memory.CommitOptions{Key: versionlog.NewKey(), Fresh: true}
	return insist(func() error {
		commit, err := c.store.Batch(ctx, batch, opts)
		opts.Fresh = false
		if err == nil {
			call.seq, call.versions = commit.Seq, commit.Versions
		}
		return err
	})
}

// insist makes a call again until it is told how that ended: where requests get
// lost, now and then one is lost as often as a backend tries it.
func insist(call func() error) error {
	for try := 1; ; try++ {
		err := call()
		if err == nil || errors.Is(err, versionlog.ErrConflict) || errors.Is(err, versionlog.ErrNotFound) || try == 20 {
			return err
		}
	}
}

// record makes a call and notes what came of it.
func (c *historyClient) record(call storeCall, do func(*storeCall) error) {
	call.invoked = time.Since(c.h.start)
	err := do(&call)
	call.replied = time.Since(c.h.start)
	var conflict *versionlog.ConflictError
	switch {
	case err == nil:
		for _, v := range call.versions {
			c.seen[v.Path] = v.ID
		}
	case errors.As(err, &conflict):
		call.outcome, call.conflicts = conflicted, map[string]string{}
		for _, one := range conflict.Conflicts {
			call.conflicts[one.Path] = ""
			if one.Head != nil {
				call.conflicts[one.Path] = one.Head.ID
			}
		}
	case errors.Is(err, versionlog.ErrNotFound):
		call.outcome = notFound
	default:
		call.outcome = callOutcome(err.Error())
	}
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	c.h.calls = append(c.h.calls, call)
}

// decidable is how many clients' calls porcupine can put in order within a
// minute.
const decidable = 8

// TestHistories: whatever many callers do to a store at once, there is an order
// of their calls in which each returned what it must.
func TestHistories(t *testing.T) {
	for name, work := range map[string]historyWork{
		"memlog":    {clients: 8, calls: 50, episodes: 100}, // 8 × 5,000
		"sqlitelog": {clients: 8, calls: 50, episodes: 12},
		"dynamolog": {clients: 8, calls: 50, episodes: 3},
	} {
		if os.Getenv("MNEME_TORTURE") == "1" {
			work = historyWork{clients: 32, calls: 50, episodes: 625} // 32 × 31,250
		}
		first, episodes := turn.Share(work.episodes, 3)
		t.Run(name, func(t *testing.T) {
			libs := historyBackends[name](t)
			counts := map[string]int{}
			for episode := first; episode < first+episodes; episode++ {
				if episode%100 == 99 {
					t.Logf("episode %d of %d", episode+1, first+episodes)
				}
				calls := work.run(t.Context(), uint64(episode), openTwice(t, libs, fmt.Sprint("episode-", episode))...)
				if err := ordered(calls); err != nil {
					t.Fatalf("episode %d, %d calls: %v", episode, len(calls), err)
				}
				if work.clients <= decidable {
					if err := linearizable(calls); err != nil {
						t.Fatalf("episode %d, %d calls: porcupine: %v", episode, len(calls), err)
					}
				}
				for _, c := range calls {
					counts["calls"]++
					counts[c.result()]++
				}
			}
			t.Logf("%d clients, %v", work.clients, counts)
			if counts["appended"] == 0 || counts["committed"] < counts["calls"]/10 || counts["conflict"] < counts["calls"]/10 {
				t.Error("that is too little to show anything")
			}
		})
	}
}

func (c *storeCall) result() string {
	switch {
	case c.outcome != "":
		return string(c.outcome)
	case c.kind == callAppend:
		return "appended"
	case c.kind == callBatch:
		return "committed"
	}
	return "read"
}

// openTwice makes a store and opens it in both libraries.
func openTwice(t *testing.T, libs [2]*memory.Library, name string) []*memory.Store {
	t.Helper()
	info, err := libs[0].CreateStore(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	var stores []*memory.Store
	for _, lib := range libs {
		store, err := lib.Open(t.Context(), info.ID, author)
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, store)
	}
	return stores
}
