package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mneme/versionlog"
)

// chain is the history of a store in the table or the bucket. For a version that was not
// named it keeps only two hashes: of its commit, and of its content.
type chain struct {
	tip     versionlog.Tip
	digests []versionlog.Digest          // of the commits from 1 on, of the table
	events  map[uint64][]string          // versions that events erase
	needs   map[versionlog.Digest]bool   // contents of versions
	named   map[string]versionlog.Digest // of versions that may be erased
	current map[string]string            // of these the current versions of memories, by the ids of these; an erased one still says which memory it is of
}

func newChain() *chain {
	return &chain{events: map[uint64][]string{}, needs: map[versionlog.Digest]bool{}, named: map[string]versionlog.Digest{}, current: map[string]string{}}
}

// need adds the contents of the named versions that are not erased to needs. An erased one
// may still have its content in a row, if a process has written it back.
func (h *chain) need(erased map[string]uint64) {
	for id, d := range h.named {
		if !has(erased, id) {
			h.needs[d] = true
		}
	}
}

// add adds a commit. The contents of named versions are added by need.
func (h *chain) add(c *versionlog.Commit, named map[string]bool) {
	h.tip = h.tip.After(c)
	if ids := c.Event.ErasedVersions(); len(ids) > 0 {
		h.events[c.Seq] = ids
	}
	for i := range c.Versions {
		v := &c.Versions[i]
		switch {
		case v.Digest.IsZero():
		case named[v.ID]:
			h.named[v.ID] = v.Digest
		default:
			h.needs[v.Digest] = true
		}
		if delete(h.current, v.MemoryID); named[v.ID] && v.Live() {
			h.current[v.MemoryID] = v.ID
		}
	}
}

// readTable reads all LOG rows up to META. ErrIndex where they do not lead there.
func (s *store) readTable(ctx context.Context, named map[string]bool) (*chain, error) {
	m, err := s.log.table.meta(ctx, s.id)
	if err != nil {
		return nil, err
	}
	h := newChain()
	for c, err := range s.log.commits(ctx, m, 0, m.tip.Seq) {
		if err != nil {
			return nil, err
		}
		h.digests = append(h.digests, c.Digest)
		if h.add(c, named); c.Seq == m.tip.Seq {
			break
		}
	}
	if h.tip.Digest != m.tip.Digest {
		return nil, fmt.Errorf("%w: row %s names another commit as the newest than the records in the table do", ErrIndex, metaSort)
	}
	return h, nil
}

// readBucket reads the records in the bucket up to the table's tip, and adds their needed
// contents to those of the table, except those of erased versions. Records that the bucket
// lacks are put there first. All must be of the history that the table had before:
// ErrIndex.
func (s *store) readBucket(ctx context.Context, table *chain, erased map[string]bool) (*chain, error) {
	if err := s.stoppedBy(); err != nil {
		return nil, err
	}
	m, err := s.log.table.meta(ctx, s.id)
	if err == nil {
		err = s.compareBucket(ctx, m)
	}
	if err != nil {
		return nil, err
	}
	if err := s.recordAll(ctx, table.tip.Seq); err != nil {
		return nil, err
	}
	h := newChain()
	h.needs = table.needs
	err = s.eachRecord(ctx, func(of span, data []byte) error {
		if of.first > table.tip.Seq { // of a commit made meanwhile; those before it may be late
			return nil
		}
		return h.addRecords(s.id, of, data, table, erased)
	})
	if err != nil {
		return nil, err
	}
	if h.tip.Seq < table.tip.Seq {
		return nil, fmt.Errorf("%w: the bucket has no record of commit %d", ErrIndex, h.tip.Seq+1)
	}
	return h, nil
}

// eachRecord calls fn with the objects in the bucket that have records, in their order.
func (s *store) eachRecord(ctx context.Context, fn func(of span, data []byte) error) error {
	spans, err := s.log.recordSpans(ctx, s.id)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(spans, recordsAtATime) {
		wanted := map[span]bool{}
		for _, of := range some {
			wanted[of] = true
		}
		found, err := inParallel(wanted, func(of span, _ bool) ([]byte, error) { return s.log.records.get(ctx, recordKey(s.id, of)) })
		if err != nil {
			return err
		}
		for _, of := range some {
			if err := fn(of, found[of]); err != nil {
				return err
			}
		}
	}
	return nil
}

// addRecords takes in an object, which follows those before it.
func (h *chain) addRecords(storeID string, of span, data []byte, table *chain, erased map[string]bool) error {
	if err := copyOf("", of, storeID, data).err; err != nil {
		return fmt.Errorf("%w: object %s: %w", ErrIndex, recordKey(storeID, of), err)
	}
	commits, err := decodeRecords(data)
	if err != nil {
		return err
	}
	for _, c := range commits {
		if n := c.Seq - 1; n < uint64(len(table.digests)) && table.digests[n] != c.Digest {
			return fmt.Errorf("%w: commit %d is another in the bucket than in the table", ErrIndex, c.Seq)
		}
		if c.Seq != h.tip.Seq+1 || c.Prev != h.tip.Digest {
			return fmt.Errorf("%w: object %s has commit %d, which does not follow commit %d", ErrIndex, recordKey(storeID, of), c.Seq, h.tip.Seq)
		}
		h.add(c, erased)
	}
	return nil
}

// recordAll puts the records that the bucket still lacks.
func (s *store) recordAll(ctx context.Context, upTo uint64) error {
	for i, err := range s.log.table.below(ctx, s.id, outPrefix) {
		if err != nil {
			return err
		}
		o, err := owedOf(i)
		if err != nil {
			return err
		}
		if o.last == 0 || o.last > upTo {
			continue
		}
		_, records, err := s.log.recorded(ctx, s.id, o.span)
		if err == nil {
			err = s.log.records.put(ctx, s.id, o.span, records)
		}
		if errors.Is(err, errOtherRecord) {
			s.stop(err)
			return s.stoppedBy()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
