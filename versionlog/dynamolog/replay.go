package dynamolog

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mneme/versionlog"
)

// replay is a store as its records in the bucket tell it: the rows that the
// table should hold.
type replay struct {
	meta      *meta
	described uint64 // the epoch that the description tells of
	told      versionlog.Told
	heads     map[string]*versionlog.Version
	left      map[string]*versionlog.Version
	after     func() error     // is called after each commit
	emit      func(item) error // is given every row; LOG, KEY and MEM as the records come, the rest at the end
}

// recordsAtATime is how many objects a replay reads in parallel.
const recordsAtATime = 64

// replayStore replays the records of a store up to upTo, 0 for all, and gives
// every row that follows from them to emit. ErrNotFound when the bucket has no
// such store, ErrCorrupt when the records are not those of one history.
func (l *Log) replayStore(ctx context.Context, storeID string, upTo uint64, emit func(item) error, progress func(done, total int)) (*replay, error) {
	return l.replayCommits(ctx, storeID, upTo, emit, func(*replay) error { return nil }, progress)
}

// replayCommits is replayStore that shows the replay after each commit, too.
func (l *Log) replayCommits(ctx context.Context, storeID string, upTo uint64, emit func(item) error, after func(*replay) error, progress func(done, total int)) (*replay, error) {
	data, err := l.records.get(ctx, descriptionKey(storeID))
	if err != nil {
		return nil, err
	}
	r := &replay{heads: map[string]*versionlog.Version{}, left: map[string]*versionlog.Version{}, emit: emit}
	r.after = func() error { return after(r) }
	if r.meta, err = parseDescription(data); err != nil || r.meta.ID != storeID {
		return nil, fmt.Errorf("object %s: %w: it does not describe the store: %w", descriptionKey(storeID), versionlog.ErrCorrupt, err)
	}
	r.described = r.meta.Epoch
	spans, err := l.recordSpans(ctx, storeID)
	if err != nil {
		return nil, err
	}
	total := len(spans)
	for len(spans) > 0 && (upTo == 0 || r.meta.tip.Seq < upTo) {
		n := min(len(spans), recordsAtATime)
		if err := l.replaySome(ctx, r, spans[:n], upTo); err != nil {
			return nil, err
		}
		spans = spans[n:]
		progress(total-len(spans), total)
	}
	return r, r.rest()
}

// recordSpans returns of which commits the bucket has records, in the order of
// the names of the objects.
func (l *Log) recordSpans(ctx context.Context, storeID string) ([]span, error) {
	var spans []span
	prefix := recordPrefix(storeID)
	for name, err := range l.records.list(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		of, ok := parseSpan(strings.TrimPrefix(name, prefix))
		if !ok || name != recordKey(storeID, of) {
			continue // not mneme's
		}
		spans = append(spans, of)
	}
	return spans, nil
}

func (l *Log) replaySome(ctx context.Context, r *replay, spans []span, upTo uint64) error {
	wanted := map[span]bool{}
	for _, of := range spans {
		wanted[of] = true
	}
	found, err := inParallel(wanted, func(of span, _ bool) ([]byte, error) {
		return l.records.get(ctx, recordKey(r.meta.ID, of))
	})
	if err != nil {
		return err
	}
	for _, of := range spans {
		if upTo != 0 && of.first > upTo {
			return nil
		}
		if err := r.add(of, found[of]); err != nil {
			return fmt.Errorf("object %s: %w", recordKey(r.meta.ID, of), err)
		}
	}
	return nil
}

// add replays the records of one transaction.
func (r *replay) add(of span, records []byte) error {
	commits, err := decodeRecords(records)
	if err != nil {
		return err
	}
	if has := spanOf(commits); has != of {
		return fmt.Errorf("%w: it has the records %d to %d", versionlog.ErrCorrupt, has.first, has.last)
	}
	rows := []item{logItem(r.meta.ID, of.last, records)}
	for _, c := range commits {
		more, err := r.apply(c)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
		if err := r.after(); err != nil {
			return err
		}
	}
	for _, i := range rows {
		if err := r.emit(i); err != nil {
			return err
		}
	}
	return nil
}

// apply replays one commit and returns the rows that are its own.
func (r *replay) apply(c *versionlog.Commit) ([]item, error) {
	tip := &r.meta.tip
	if c.StoreID != r.meta.ID || c.Seq != tip.Seq+1 || c.Prev != tip.Digest {
		return nil, fmt.Errorf("%w: it is commit %d of store %s, which does not follow commit %d", versionlog.ErrCorrupt, c.Seq, c.StoreID, tip.Seq)
	}
	*tip = tip.After(c)
	// What the description says of it may be from before or after the commit. A copy
	// whose part in a promotion it does not tell is a replica, which writes nothing.
	replica := r.meta.Replica || c.Epoch > r.described
	r.meta.Store = r.meta.After(c, replica)
	r.told.Add(c)
	for path, v := range leftBy(c) {
		delete(r.heads, path)
		r.left[path] = v
	}
	rows := []item{keyItem(c)}
	for i := range c.Versions {
		v := &c.Versions[i]
		if v.Live() {
			r.heads[v.Path] = v
		}
		rows = append(rows, versionItem(r.meta.ID, memSort(v, i), v))
	}
	return rows, nil
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
