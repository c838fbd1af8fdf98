package sqlitelog

import (
	"context"
	"errors"
	"reflect"
	"time"

	"mneme/versionlog"
)

// earlySlice is how many versions are in a slice. A commit of up to so many is not written early.
var earlySlice = 1500

// betweenEarly leaves room for other processes, which look every busyMaxSleep whether they can write.
// In tests others write meanwhile.
var betweenEarly = func() { time.Sleep(busyMaxSleep * 3 / 2) }

// writeEarly writes the versions of a draft early, if that is worth it. ErrBusy.
//
// The versions of a large commit are written early: before the commit, in transactions between which
// others can write. In one transaction those of a directory with 5,000 memories would keep every other
// writer of the database waiting for a quarter of a second. No reader sees early versions: their sequence
// number is above the tip of their store, and no commit has it yet.
//
//  1. The commit is drafted on a state of its store.
//  2. Each slice of its versions has a transaction, which writes only if the store is still in that
//     state. The first slice notes in the table early which versions they are. The slices are not
//     synced: the write-ahead log keeps them in order, and the commit is synced.
//  3. If the transaction of the commit finds the store in that state, with the note, then all versions
//     exist. It writes the rest, and removes the note.
//  4. If the transaction of another commit finds a note that is not its own, it removes the note and the
//     versions. The process that wrote them finds the store in another state, and makes its commit in
//     one transaction. So no commit starts over more than once.
//
// A process that is killed leaves its early versions to the next commit of the store. Only commits that
// move and remove memories are written early. They bring no contents, so no content has early versions
// alone.
func (l *Log) writeEarly(ctx context.Context, d *draft) error {
	if !d.isForEarly() {
		return nil
	}
	versions := d.commit.Versions
	for at := 0; at < len(versions); at += earlySlice {
		err := retryBusy(ctx, func() error {
			return l.writer.unsynced(ctx, func(ctx context.Context) error {
				return l.writer.insertSlice(ctx, &d.state, versions, at)
			})
		})
		if err != nil {
			l.withdraw(ctx, d)
			if errors.Is(err, ErrBusy) {
				return err
			}
			return nil // the commit meets the reason, or another state of the store
		}
		d.state.early = versions[0].ID
		l.packer.committing()
		l.carrier.note(l.stores.moment().frames())
		betweenEarly()
	}
	return nil
}

func (d *draft) isForEarly() bool {
	if d == nil || len(d.commit.Versions) <= earlySlice || d.state.early != "" {
		return false
	}
	for i := range d.commit.Versions {
		if op := d.commit.Versions[i].Op; op != versionlog.OpRenamed && op != versionlog.OpDeleted {
			return false
		}
	}
	return true
}

// insertSlice inserts the versions from one on, within a transaction, if the store is in state s. errMoved.
func (w *writer) insertSlice(ctx context.Context, s *storeRow, versions []versionlog.Version, at int) error {
	now, err := queryOne(ctx, w, storeByID, scanStore, s.ID)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(now, *s) {
		return errMoved
	}
	if at == 0 {
		if err := w.run(noteEarly, s.num, versions[0].ID); err != nil {
			return err
		}
	}
	for i := at; i < min(at+earlySlice, len(versions)); i++ {
		if err := w.insertVersion(s.num, i, &versions[i]); err != nil {
			return err
		}
	}
	return nil
}

// withdraw removes the early versions of a draft that becomes no commit. If it cannot, the next commit
// of the store does.
func (l *Log) withdraw(ctx context.Context, d *draft) {
	if d == nil || !isEarly(d.commit, &d.state) {
		return
	}
	_ = l.writer.unsynced(context.WithoutCancel(ctx), func(ctx context.Context) error {
		s, err := queryOne(ctx, l.writer, storeByID, scanStore, d.state.ID)
		if err == nil && isEarly(d.commit, &s) {
			err = l.writer.dropEarly(&s)
		}
		return err
	})
	d.state.early = ""
}
