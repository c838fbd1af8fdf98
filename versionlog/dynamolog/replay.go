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
	newest    map[string]*versionlog.Version // that took place at a path
	at        map[string]string              // where a memory lives, by its id

	erased   map[string]uint64 // versions that an event names, by their ids, whether or not their records do without them
	unpurged map[uint64]bool   // events that name versions whose records have them
	after    func() error      // is called after each commit
	emit     func(item) error  // is given every row; LOG, KEY and MEM as the records come, the rest at the end
}

// recordsAtATime is how many objects a replay reads in parallel.
const recordsAtATime = 64

// newReplay returns a replay that passes every row that follows from the records to emit.
// Versions that an event erases are erased from each row, though the record may still have
// them.
func newReplay(erased map[string]uint64, emit func(item) error) *replay {
	return &replay{
		heads: map[string]*versionlog.Version{}, left: map[string]*versionlog.Version{}, newest: map[string]*versionlog.Version{},
		at: map[string]string{}, emit: emit, after: func() error { return nil }, erased: erased, unpurged: map[uint64]bool{},
	}
}

// replayInto replays the records of a store up to upTo, 0 for all. ErrNotFound when the
// bucket has no such store, ErrCorrupt when the records are not those of one history.
func (l *Log) replayInto(ctx context.Context, r *replay, storeID string, upTo uint64, progress func(done, total int)) (*replay, error) {
	data, err := l.records.get(ctx, descriptionKey(storeID))
	if err != nil {
		return nil, err
	}
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
	if erased, was := eraseFrom(commits, r.erased); len(was) > 0 {
		for _, v := range was {
			r.unpurged[r.erased[v.ID]] = true
		}
		commits = erased
		if records, err = encodeRecords(commits); err != nil {
			return err
		}
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
	// The description may be from before or after the commit. A copy whose part in a promotion
	// the description does not have is a replica, which writes nothing.
	replica := r.meta.Replica || c.Epoch > r.described
	r.meta.Store = r.meta.After(c, replica)
	r.told.Add(c)
	if c.Erases() {
		r.meta.redacted, r.meta.erased = c.Seq, c.Seq
	}
	r.move(c)
	rows := []item{keyItem(c)}
	for i := range c.Versions {
		v := &c.Versions[i]
		rows = append(rows, versionItem(r.meta.ID, memSort(v, i), v))
	}
	return rows, nil
}

// move brings the paths to the end of a commit. A path that an erased version has left is
// known by where its memory was; what left it last is then what took place there before.
func (r *replay) move(c *versionlog.Commit) {
	for i := range c.Versions {
		v := &c.Versions[i]
		leaves := !v.Live() || v.Op == versionlog.OpRenamed
		path, lives := r.at[v.MemoryID]
		switch {
		case v.Redacted() && leaves && lives:
			delete(r.heads, path)
			delete(r.at, v.MemoryID)
			r.left[path] = r.newest[path]
		case v.Redacted():
		case leaves:
			if v.Op == versionlog.OpRenamed {
				path = v.From
			} else {
				path = v.Path
			}
			delete(r.heads, path)
			delete(r.at, v.MemoryID)
			r.left[path], r.newest[path] = v, v
		}
	}
	for i := range c.Versions {
		if v := &c.Versions[i]; v.Live() && !v.Redacted() {
			r.heads[v.Path], r.newest[v.Path], r.at[v.MemoryID] = v, v, v.Path
		}
	}
}

// rest emits the rows that tell of the end of the history.
func (r *replay) rest() error {
	for seq := range r.unpurged {
		if err := r.emit(eraseItem(r.meta.ID, seq)); err != nil {
			return err
		}
	}
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
