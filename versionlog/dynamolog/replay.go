package dynamolog

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mneme/versionlog"
)

// replay is a store as its records in the bucket tell it: the rows that the
// table should hold.
type replay struct {
	meta  *meta
	heads map[string]*versionlog.Version
	left  map[string]*versionlog.Version
	emit  func(item) error // is given every row; LOG, KEY and MEM as the records come, the rest at the end
}

// recordsAtATime is how many records a replay reads in parallel.
const recordsAtATime = 64

// replayStore replays the records of a store up to upTo, 0 for all, and gives
// every row that follows from them to emit. ErrNotFound when the bucket has no
// such store, ErrCorrupt when the records are not those of one history.
func (l *Log) replayStore(ctx context.Context, storeID string, upTo uint64, emit func(item) error, progress func(done, total int)) (*replay, error) {
	data, err := l.records.get(ctx, descriptionKey(storeID))
	if err != nil {
		return nil, err
	}
	r := &replay{heads: map[string]*versionlog.Version{}, left: map[string]*versionlog.Version{}, emit: emit}
	if r.meta, err = parseDescription(data); err != nil || r.meta.ID != storeID {
		return nil, fmt.Errorf("object %s: %w: it does not describe the store: %w", descriptionKey(storeID), versionlog.ErrCorrupt, err)
	}
	seqs, err := l.recordSeqs(ctx, storeID)
	if err != nil {
		return nil, err
	}
	total := len(seqs)
	for len(seqs) > 0 && (upTo == 0 || r.meta.tip.Seq < upTo) {
		n := min(len(seqs), recordsAtATime)
		if err := l.replaySome(ctx, r, seqs[:n], upTo); err != nil {
			return nil, err
		}
		seqs = seqs[n:]
		progress(total-len(seqs), total)
	}
	return r, r.rest()
}

// recordSeqs returns the sequence numbers of the records in the bucket, in
// order.
func (l *Log) recordSeqs(ctx context.Context, storeID string) ([]uint64, error) {
	var seqs []uint64
	prefix := recordPrefix(storeID)
	for name, err := range l.records.list(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		seq, err := strconv.ParseUint(strings.TrimPrefix(name, prefix), 10, 64)
		if err != nil || name != recordKey(storeID, seq) {
			continue // not mneme's
		}
		seqs = append(seqs, seq)
	}
	return seqs, nil
}

func (l *Log) replaySome(ctx context.Context, r *replay, seqs []uint64, upTo uint64) error {
	wanted := map[uint64]bool{}
	for _, seq := range seqs {
		wanted[seq] = true
	}
	found, err := inParallel(wanted, func(seq uint64, _ bool) ([]byte, error) {
		return l.records.get(ctx, recordKey(r.meta.ID, seq))
	})
	if err != nil {
		return err
	}
	for _, seq := range seqs {
		if upTo != 0 && seq > upTo {
			return nil
		}
		c, err := versionlog.DecodeRecord(found[seq])
		if err == nil {
			err = r.add(c, found[seq])
		}
		if err != nil {
			return fmt.Errorf("object %s: %w", recordKey(r.meta.ID, seq), err)
		}
	}
	return nil
}

// add replays one record.
func (r *replay) add(c *versionlog.Commit, record []byte) error {
	tip := &r.meta.tip
	if c.StoreID != r.meta.ID || c.Seq != tip.Seq+1 || c.Prev != tip.Digest {
		return fmt.Errorf("%w: it is commit %d of store %s, which does not follow commit %d", versionlog.ErrCorrupt, c.Seq, c.StoreID, tip.Seq)
	}
	tip.Seq, tip.Digest, tip.Time = c.Seq, c.Digest, c.Time
	for path, v := range leftBy(c) {
		delete(r.heads, path)
		r.left[path] = v
	}
	rows := []item{logItem(c, record), keyItem(c)}
	for i := range c.Versions {
		v := &c.Versions[i]
		if v.Live() {
			r.heads[v.Path] = v
		}
		rows = append(rows, versionItem(r.meta.ID, memSort(v, i), v))
	}
	for _, i := range rows {
		if err := r.emit(i); err != nil {
			return err
		}
	}
	return nil
}

// rest emits the rows that tell of the end of the history.
func (r *replay) rest() error {
	for path, v := range r.heads {
		if err := r.emit(versionItem(r.meta.ID, path, v)); err != nil {
			return err
		}
	}
	for path, v := range r.left {
		if err := r.emit(versionItem(r.meta.ID, leftSort(path), v)); err != nil {
			return err
		}
	}
	return nil
}

// expired reports whether a row may have been removed by the table itself.
func expired(i item) bool {
	r := row{item: i}
	at := r.int("expires")
	return at != 0 && time.Unix(at, 0).Before(time.Now())
}
