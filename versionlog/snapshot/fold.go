package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"

	"mneme/versionlog"
)

// A snapshot has the keys of at least keysKept commits, if it has been folded from the
// beginning. It drops keysDropped at once, so that its first page is mostly the same.
const (
	keysKept    = 10_000
	keysDropped = 1000
)

// Fold makes the snapshot of a later commit, seq, from an earlier one. commits are those
// from that of the earlier snapshot on, or from the first. Pages in which nothing has
// changed have the same names in both, and sink is given only the others. However often
// it was folded, a snapshot is the same, byte for byte, as long as nothing compresses
// differently.
//
// Errors: ErrOtherHistory when the commits are not of the snapshot's history, ErrOrder when
// some are missing or seq is before the snapshot, versionlog.ErrNotFound when they end
// before seq, ErrTooLarge, those of commits, of the source and of sink.
func (s *Snapshot) Fold(ctx context.Context, sink Sink, seq uint64, commits iter.Seq2[*versionlog.Commit, error]) error {
	return s.fold(ctx, sink, seq, commits, defaultPaging)
}

func (s *Snapshot) fold(ctx context.Context, sink Sink, seq uint64, commits iter.Seq2[*versionlog.Commit, error], paging paging) error {
	heads, memories, keys := changes{}, map[string]*stretch{}, changes{}
	tip, err := s.follow(seq, commits, func(c *versionlog.Commit) {
		for path, v := range c.Heads() {
			heads[path] = toHead(v)
		}
		for i := range c.Versions {
			addVersion(memories, &c.Versions[i])
		}
		if c.Key != "" {
			keys[seqKey(c.Seq)] = toKey(Key{c.Key, c.Seq})
		}
	})
	if err != nil {
		return err
	}
	next := Empty(s.StoreID, s.Creation)
	next.Tip, next.HistoryAfter, next.KeysAfter = tip, s.HistoryAfter, s.KeysAfter
	if seq > keysKept {
		next.KeysAfter = max(s.KeysAfter, (seq-keysKept)/keysDropped*keysDropped)
	}
	w := &writer{sink: sink, paging: paging}
	m := merger{s, w}
	if next.heads, err = m.merge(ctx, &s.heads, keepLine(decodePlace), heads, ""); err != nil {
		return err
	}
	if next.memories, err = m.merge(ctx, &s.memories, keepLine(decodeStretch), toLonger(memories), ""); err != nil {
		return err
	}
	if next.keys, err = m.merge(ctx, &s.keys, keepLine(decodeKey), keys, seqKey(next.KeysAfter+1)); err != nil {
		return err
	}
	return next.put(ctx, sink)
}

// follow calls take for every commit above the snapshot up to seq, and returns the tip
// there. It makes sure that the snapshot is of the commits' history.
func (s *Snapshot) follow(seq uint64, commits iter.Seq2[*versionlog.Commit, error], take func(*versionlog.Commit)) (versionlog.Tip, error) {
	tip, ours := s.Tip, s.Tip.Seq == 0 // whether the snapshot's commit is in the history
	if seq < tip.Seq {
		return tip, fmt.Errorf("commit %d from a snapshot of commit %d: %w", seq, tip.Seq, ErrOrder)
	}
	if ours && seq == 0 {
		return tip, nil
	}
	for c, err := range commits {
		switch {
		case err != nil:
			return tip, err
		case c.StoreID != s.StoreID, c.Seq == tip.Seq && c.Digest != tip.Digest, c.Seq == tip.Seq+1 && c.Prev != tip.Digest:
			return tip, fmt.Errorf("snapshot of store %q, commit %d, %.12s: %w: commit %d of store %q does not fit", s.StoreID, s.Tip.Seq, s.Tip.Digest, ErrOtherHistory, c.Seq, c.StoreID)
		case c.Seq == tip.Seq && !ours:
		case c.Seq == tip.Seq+1:
			take(c)
			tip = tip.After(c)
		default:
			return tip, fmt.Errorf("commit %d behind commit %d: %w", c.Seq, tip.Seq, ErrOrder)
		}
		if ours = true; tip.Seq == seq {
			return tip, nil
		}
	}
	return tip, fmt.Errorf("commit %d: %w", seq, versionlog.ErrNotFound)
}

// changes say by their keys what lines become: each is given the line that is there, nil
// for none, and returns the new one, nil for none.
type changes map[string]change

type change func(old []byte) ([]byte, error)

func toHead(v *versionlog.Version) change {
	return func([]byte) ([]byte, error) {
		if v == nil {
			return nil, nil
		}
		return encodeHead(v)
	}
}

func toKey(k Key) change {
	return func([]byte) ([]byte, error) { return json.Marshal(k) }
}

// addVersion adds a version to the stretch of its memory.
func addVersion(to map[string]*stretch, v *versionlog.Version) {
	key := stretchKey(v.MemoryID, v.Seq)
	if to[key] == nil {
		to[key] = &stretch{MemoryID: v.MemoryID}
	}
	to[key].Seqs = append(to[key].Seqs, v.Seq)
}

// toLonger returns the changes that put stretches behind what there is of them.
func toLonger(stretches map[string]*stretch) changes {
	ch := changes{}
	for key, more := range stretches {
		ch[key] = func(old []byte) ([]byte, error) {
			if old == nil {
				return json.Marshal(more)
			}
			one, err := decodeStretch(old)
			if err != nil {
				return nil, err
			}
			one.Seqs = append(one.Seqs, more.Seqs...)
			return json.Marshal(one)
		}
	}
	return ch
}

// merger makes the lists of a snapshot those of a later one.
type merger struct {
	old *Snapshot
	w   *writer
}

// merge writes a list with changes, from a key on.
func (m merger) merge(ctx context.Context, l *list, decode decode[line], ch changes, from string) (list, error) {
	keys := slices.Sorted(maps.Keys(ch))
	for i := range l.Pages {
		n := len(keys) // that are in the page
		if i+1 < len(l.Pages) {
			n, _ = slices.BinarySearch(keys, l.Pages[i+1].First)
		}
		if n == 0 && l.Pages[i].First >= from && m.w.count == 0 {
			m.w.took(l.Pages[i])
			continue
		}
		old, err := read(ctx, m.old.source, l, i, decode)
		if err != nil {
			return list{}, err
		}
		if err := m.page(ctx, old, keys[:n], ch, from); err != nil {
			return list{}, err
		}
		keys = keys[n:]
	}
	if err := m.page(ctx, nil, keys, ch, from); err != nil {
		return list{}, err
	}
	return m.w.end(ctx)
}

// page writes what the lines of a page become with the changes of some keys.
func (m merger) page(ctx context.Context, old []line, keys []string, ch changes, from string) error {
	for len(old) > 0 || len(keys) > 0 {
		var one line
		if len(keys) == 0 || len(old) > 0 && old[0].at < keys[0] {
			one, old = old[0], old[1:]
		} else {
			one, keys = line{at: keys[0]}, keys[1:]
			if len(old) > 0 && old[0].at == one.at {
				one, old = old[0], old[1:]
			}
			var err error
			if one.text, err = ch[one.at](one.text); err != nil {
				return err
			}
		}
		if one.text == nil || one.at < from {
			continue
		}
		if err := m.w.add(ctx, one); err != nil {
			return err
		}
	}
	return nil
}
