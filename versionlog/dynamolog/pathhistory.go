package dynamolog

import (
	"context"
	"iter"
	"slices"

	"mneme/versionlog"
)

// Last returns the newest version that took place at a path. It costs as much
// as Head, and another GetItem when nothing lives there.
func (l *Log) Last(ctx context.Context, storeID, path string) (v versionlog.Version, err error) {
	err = call(ctx, func(ctx context.Context) error {
		m, found, err := l.withMeta(ctx, storeID, path)
		if err != nil {
			return err
		}
		// In this order: what left the path before the second read either is
		// what it finds, or left before the first.
		if found == nil && isPath(path) {
			if found, err = l.table.get(ctx, storeID, leftSort(path), false); err != nil {
				return err
			}
		}
		if found == nil {
			return noMemory(storeID, path)
		}
		newest, err := versionOf(found)
		if err != nil {
			return err
		}
		hide, err := l.unerased(ctx, m)
		if err != nil {
			return err
		}
		if !hide[newest.ID] {
			v = newest
			return nil
		}
		for v, err = range l.versionsAt(ctx, m, path, &newest) {
			return err
		}
		return noMemory(storeID, path)
	})
	return v, err
}

// PathHistory yields every version that took place at a path, newest first. The rows of the
// path name the memory that is there, and the one that left it last; these two stays are
// read as History reads a memory. Earlier stays, and versions before an erased one, are
// looked for in the LOG rows, from there down to the first: a Query per 1 MB of records. If
// no memory has ever left the path, and none of its versions is erased, no LOG row is read.
func (l *Log) PathHistory(ctx context.Context, storeID, path string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		var m *meta
		var head, left *versionlog.Version
		err := call(ctx, func(ctx context.Context) (err error) {
			m, head, left, err = l.endsAt(ctx, storeID, path)
			return err
		})
		if err != nil {
			yield(versionlog.Version{}, err)
			return
		}
		before := versionlog.Version{Seq: maxSeq, ID: "~"}
		torn := false // by a version that is erased
		for _, end := range []*versionlog.Version{head, left} {
			if end == nil || torn {
				continue
			}
			for v, err := range l.stay(ctx, storeID, path, end) {
				if torn = err == nil && v.Redacted(); torn {
					break
				}
				if !yield(v, err) || err != nil {
					return
				}
				before = v
			}
		}
		if left == nil && !torn {
			return
		}
		for v, err := range l.versionsAt(ctx, m, path, &before) {
			if err != nil {
				err = walkError(ctx, err)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// endsAt returns the META row, and the newest versions of the memory that is at a path and of
// the one that left it last; nil: there is none.
func (l *Log) endsAt(ctx context.Context, storeID, path string) (m *meta, head, left *versionlog.Version, err error) {
	m, there, err := l.withMeta(ctx, storeID, path)
	if err != nil || !isPath(path) {
		return m, nil, nil, err
	}
	gone, err := l.table.get(ctx, storeID, leftSort(path), false) // in this order, as in Last
	if err != nil {
		return nil, nil, nil, err
	}
	for _, found := range []struct {
		row item
		to  **versionlog.Version
	}{{there, &head}, {gone, &left}} {
		if found.row == nil {
			continue
		}
		v, err := versionOf(found.row)
		if err != nil {
			return nil, nil, nil, err
		}
		*found.to = &v
	}
	if head != nil && left != nil && head.ID < left.ID { // it has left since it was read
		head = nil
	}
	return m, head, left, nil
}

// stay yields the versions of a memory at a path from end down to the one that
// brought it there.
func (l *Log) stay(ctx context.Context, storeID, path string, end *versionlog.Version) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		for v, err := range l.History(ctx, storeID, end.MemoryID, end.Seq+1) {
			if !yield(v, err) || err != nil || v.Path == path && v.Arrives() {
				return
			}
		}
	}
}

// versionsAt yields the versions before one that took place at a path, newest first, from
// the LOG rows.
func (l *Log) versionsAt(ctx context.Context, m *meta, path string, before *versionlog.Version) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		var none versionlog.Version
		hide, err := l.unerased(ctx, m)
		if err != nil {
			yield(none, err)
			return
		}
		// The commit before that may share its row with later ones.
		rows := between{partition: m.ID, from: logSort(0), to: logSort(min(before.Seq+maxRows, maxSeq)), backwards: true}
		for i, err := range l.table.rows(ctx, rows) {
			var commits []*versionlog.Commit
			if err == nil {
				commits, err = commitsOf(i)
			}
			if err != nil {
				yield(none, err)
				return
			}
			for _, c := range slices.Backward(hide.commits(commits)) {
				for _, v := range slices.Backward(c.Versions) {
					if c.Seq <= before.Seq && v.ID < before.ID && !v.Redacted() && v.At(path) && !yield(v, nil) {
						return
					}
				}
			}
		}
	}
}
