package gateway

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"mneme/gateway/wire"
	"mneme/versionlog"
)

// Stores is part of versionlog.Log.
func (l *Log) Stores(ctx context.Context, after string) iter.Seq2[versionlog.Store, error] {
	return walk(ctx, l.client, walking[versionlog.Store]{
		op: wire.OpStores, ask: wire.Ask{After: wire.Text(after)}, read: readStore,
		resume: func(a *wire.Ask, last versionlog.Store) { a.After = wire.Text(last.Slug) },
		check: func(last *versionlog.Store, one versionlog.Store) error {
			if last != nil && one.Slug <= last.Slug || one.Slug <= after {
				return fmt.Errorf("the store %.100q is out of order", one.Slug)
			}
			return l.client.rules.checkStore(one)
		},
	})
}

// Heads is part of versionlog.Log.
func (l *Log) Heads(ctx context.Context, storeID, prefix, after string) iter.Seq2[versionlog.Version, error] {
	return l.heads(ctx, wire.Ask{Store: storeID, Path: wire.Text(prefix), After: wire.Text(after)})
}

func (l *Log) heads(ctx context.Context, ask wire.Ask) iter.Seq2[versionlog.Version, error] {
	return walk(ctx, l.client, walking[versionlog.Version]{
		op: wire.OpHeads, ask: ask, read: readVersion,
		resume: func(a *wire.Ask, last versionlog.Version) { a.After = wire.Text(last.Path) },
		check:  l.client.rules.ascends(&ask),
	})
}

// Children is part of versionlog.Log.
func (l *Log) Children(ctx context.Context, storeID, dir string) iter.Seq2[versionlog.Version, error] {
	return l.children(ctx, wire.Ask{Store: storeID, Path: wire.Text(dir)})
}

// children starts again when the answer breaks off. Another version may represent a
// directory then.
func (l *Log) children(ctx context.Context, ask wire.Ask) iter.Seq2[versionlog.Version, error] {
	below := strings.TrimSuffix(string(ask.Path), "/") + "/"
	name := func(path string) string {
		first, _, _ := strings.Cut(strings.TrimPrefix(path, below), "/")
		return first
	}
	return walk(ctx, l.client, walking[versionlog.Version]{
		op: wire.OpChildren, ask: ask, read: readVersion,
		passed: func(last, one versionlog.Version) bool {
			return one.Path <= last.Path || name(one.Path) == name(last.Path)
		},
		check: l.client.rules.ascends(&ask),
	})
}

// History is part of versionlog.Log.
func (l *Log) History(ctx context.Context, storeID, memoryID string, before uint64) iter.Seq2[versionlog.Version, error] {
	return l.versions(ctx, walking[versionlog.Version]{
		op: wire.OpHistory, searches: true, ask: wire.Ask{Store: storeID, ID: memoryID, Seq: before},
		resume: func(a *wire.Ask, last versionlog.Version) { a.Seq = last.Seq + 1 },
		check:  l.client.rules.descends(before, func(v *versionlog.Version) bool { return v.MemoryID == memoryID }),
	})
}

// PathHistory is part of versionlog.Log.
func (l *Log) PathHistory(ctx context.Context, storeID, path string) iter.Seq2[versionlog.Version, error] {
	return l.versions(ctx, walking[versionlog.Version]{
		op: wire.OpPathHistory, searches: true, ask: wire.Ask{Store: storeID, Path: wire.Text(path)},
		check: l.client.rules.descends(0, func(v *versionlog.Version) bool { return v.At(path) }),
	})
}

// versions walks from new to old. It has yielded few of one commit.
func (l *Log) versions(ctx context.Context, w walking[versionlog.Version]) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		yielded := map[string]bool{} // ids of the commit of the last one
		at := uint64(0)
		w.read = readVersion
		w.passed = func(last, one versionlog.Version) bool { return one.Seq > last.Seq || yielded[one.ID] }
		for v, err := range walk(ctx, l.client, w) {
			if err == nil && v.Seq != at {
				clear(yielded)
				at = v.Seq
			}
			yielded[v.ID] = true
			if !yield(v, err) {
				return
			}
		}
	}
}

// Commits is part of versionlog.Log.
func (l *Log) Commits(ctx context.Context, storeID string, after uint64) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		for c, err := range walk(ctx, l.client, walking[*versionlog.Commit]{
			op: wire.OpCommits, ask: wire.Ask{Store: storeID, Seq: after}, read: readCommit,
			resume: func(a *wire.Ask, last *versionlog.Commit) { a.Seq = last.Seq },
			check:  l.client.rules.follows(storeID, after),
		}) {
			if err == nil {
				l.saw(storeID, c.Seq)
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// CommitsBefore is part of versionlog.Log.
func (l *Log) CommitsBefore(ctx context.Context, storeID string, before uint64, f versionlog.Filter) iter.Seq2[*versionlog.Commit, error] {
	filter := wire.Filter(f)
	return walk(ctx, l.client, walking[*versionlog.Commit]{
		op: wire.OpCommitsBefore, searches: true, ask: wire.Ask{Store: storeID, Seq: before, Filter: &filter}, read: readCommit,
		resume: func(a *wire.Ask, last *versionlog.Commit) { a.Seq = last.Seq },
		check:  l.client.rules.precedes(storeID, before),
	})
}
