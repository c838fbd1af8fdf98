package logtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"mneme/cas"
	"mneme/versionlog"
)

// Workload drives logs with random calls that are likely to meet: few paths,
// few contents, expectations that are sometimes out of date.
type Workload struct {
	Clients int    // goroutines
	Calls   int    // of each client
	Seed    uint64 // makes the choices, though not their timing, repeatable
}

var (
	workPaths    = []string{"/a", "/b", "/d/x", "/d", "/d/", "/e/"}
	workContents = []versionlog.Digest{cas.Sum([]byte("1")), cas.Sum([]byte("2")), cas.Sum([]byte("3"))}
)

// Run makes the calls, client i on logs[i mod len(logs)], and records them in
// h.
func (w Workload) Run(ctx context.Context, h *History, storeID string, logs ...versionlog.Log) {
	var wg sync.WaitGroup
	for i := range w.Clients {
		client := &client{
			h: h, log: logs[i%len(logs)], storeID: storeID,
			seen: map[string]versionlog.Version{}, first: map[string]string{},
			rand: rand.New(rand.NewPCG(w.Seed, uint64(i))),
		}
		wg.Go(func() {
			for range w.Calls {
				client.step(ctx)
			}
		})
	}
	wg.Wait()
}

type client struct {
	h       *History
	log     versionlog.Log
	storeID string
	rand    *rand.Rand
	seen    map[string]versionlog.Version // by path: what this client saw last there
	first   map[string]string             // by path: id of the version it saw there first
	epoch   uint64                        // of the store when it last committed; 0: not known
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func (c *client) step(ctx context.Context) {
	path := pick(c.rand, workPaths)
	switch n := c.rand.IntN(100); {
	case n < 25:
		if call := c.h.Head(ctx, c.log, c.storeID, path); call.Outcome == OutcomeOK {
			c.saw(call.Versions[0])
		} else {
			delete(c.seen, path)
		}
	case n < 32:
		c.h.Last(ctx, c.log, c.storeID, path)
	case n < 40:
		c.h.Tip(ctx, c.log, c.storeID)
	case n < 43:
		c.h.Promote(ctx, c.log, c.storeID)
	case n < 48:
		_, _ = c.h.Import(ctx, c.log, c.storeID) // what it asks for before is not judged
	default:
		under := uint64(0)
		if c.rand.IntN(3) == 0 {
			under = c.epoch
		}
		call := c.h.CommitUnder(ctx, c.log, c.storeID, under, c.changes(path)...)
		c.epoch = call.Epoch
		for _, v := range call.Versions {
			c.saw(v)
		}
	}
}

func (c *client) saw(v versionlog.Version) {
	c.seen[v.Path] = v
	if c.first[v.Path] == "" {
		c.first[v.Path] = v.ID
	}
}

// changes makes up a proposal with one change, or with two on two paths.
func (c *client) changes(path string) []Change {
	changes := []Change{c.change(path)}
	if other := pick(c.rand, workPaths); c.rand.IntN(4) == 0 && other != path && other != changes[0].To {
		second := c.change(other)
		if second.Action == versionlog.Rename {
			second = Change{Action: versionlog.Remove, Path: other, Expect: second.Expect, Version: second.Version, Content: second.Content}
		}
		changes = append(changes, second)
	}
	return changes
}

func (c *client) change(path string) Change {
	change := Change{Action: versionlog.Put, Path: path, Digest: pick(c.rand, workContents), Size: 1}
	isDir := strings.HasSuffix(path, "/")
	if isDir {
		change = Change{Action: versionlog.MakeDir, Path: path}
	}
	switch n := c.rand.IntN(100); {
	case n < 15:
		change = Change{Action: versionlog.Remove, Path: path}
	case n < 30:
		if to := pick(c.rand, workPaths); to != path && strings.HasSuffix(to, "/") == isDir {
			change.Action, change.To = versionlog.Rename, to
			if n < 22 {
				change.Digest, change.Size = versionlog.Digest{}, 0 // it keeps its content
			}
		}
	}
	seen := c.seen[path]
	switch n := c.rand.IntN(100); {
	case n < 40 && seen.ID != "":
		change.Expect, change.Version = ExpectVersion, seen.ID
	case n < 50 && seen.ID != "":
		change.Expect, change.Version = ExpectVersion, c.first[path]
	case n < 60:
		change.Expect, change.Content = ExpectDigest, pick(c.rand, workContents)
	case n < 75:
		change.Expect = ExpectAbsent
	case n < 85:
		change.Expect = ExpectExists
	default:
		change.Expect = ExpectAny
	}
	return change
}

// checkTimeout bounds the search for an order of one store's calls.
const checkTimeout = 30 * time.Second

func runHistories(t *testing.T, cfg Config) {
	for seed := range uint64(3) {
		if cfg.Slow && seed != 2 {
			continue
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newSuite(t, cfg)
			logs := []versionlog.Log{s.log}
			if cfg.Share != nil && seed > 0 {
				logs = append(logs, cfg.Share(t, s.log), cfg.Share(t, s.log))
			}
			h := &History{}
			Workload{Clients: 6, Calls: 60, Seed: seed}.Run(t.Context(), h, s.store.ID, logs...)
			if err := h.Check(checkTimeout); err != nil {
				t.Error(err)
			}
			s.verifyChain()
		})
	}
}
