package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"mneme/cas"
	"mneme/internal/safepath"
	"mneme/memory"
	"mneme/private"
	"mneme/session/conflict"
	"mneme/versionlog"
	"mneme/versionlog/sqlitelog"
)

// backupWorkers is how many contents are copied at once. Each is in memory
// meanwhile.
const backupWorkers = 4

// embeddedBackup is one run of embedded.backup. The copy is made in an order that
// needs no lock: first the database as of one moment, then the files that it
// names, which were there before it and never change. Only the deletion of a store
// removes them; such a store is left out in the end. The file that makes the
// directory a library comes last.
type embeddedBackup struct {
	from, to  embedded
	conflicts string // of from
	source    *sqlitelog.Log
	copy      *sqlitelog.Log
	progress  Progress

	mu   sync.Mutex // guards the fields below, and calls of progress
	done int        // contents of the store that is being copied
	out  Backup
}

func (e embedded) backup(ctx context.Context, conflicts, dir string, refs []string, progress Progress) (_ *Backup, err error) {
	source, err := e.openLog(ctx, &Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	b := &embeddedBackup{from: e, to: embedded{dir}, conflicts: conflicts, source: source, progress: progress}
	if err := b.database(ctx, refs); err != nil {
		return nil, err
	}
	if err := b.files(ctx); err != nil {
		return nil, err
	}
	if err := b.leaveOutDeleted(ctx); err != nil {
		return nil, err
	}
	b.out.LastFile = formatFile
	root, err := safepath.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &b.out, errors.Join(writeFormat(root), root.Close())
}

// database copies the log.
func (b *embeddedBackup) database(ctx context.Context, refs []string) error {
	var ids []string
	lib := memory.NewLibrary(b.source, nil)
	for _, ref := range refs {
		s, err := lib.FindStore(ctx, ref)
		if err != nil {
			return err
		}
		ids = append(ids, s.ID)
	}
	const megabyte = 1 << 20
	err := b.source.CopyTo(ctx, b.to.dir, func(done, total int64) {
		b.progress("MB of the database", int(done/megabyte), int(total/megabyte))
	})
	if err == nil && refs != nil {
		err = sqlitelog.Retain(ctx, b.to.dir, ids)
	}
	return err
}

// files copies what the copied log names and does not hold.
func (b *embeddedBackup) files(ctx context.Context) (err error) {
	if b.copy, err = sqlitelog.Open(ctx, b.to.dir, &sqlitelog.Options{ReadOnly: true}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.copy.Close()) }()
	stores, err := versionlog.AllStores(ctx, b.copy)
	if err != nil {
		return err
	}
	for _, s := range stores {
		tip, err := b.copy.Tip(ctx, s.ID)
		if err != nil {
			return err
		}
		b.out.Stores = append(b.out.Stores, BackupStore{ID: s.ID, Slug: s.Slug, Seq: tip.Seq})
		if err := b.contents(ctx, s); err != nil {
			return fmt.Errorf("store %s: %w", s.Slug, err)
		}
		from, to := filepath.Join(b.conflicts, s.ID), filepath.Join(b.to.dir, conflictsName, s.ID)
		n, err := conflict.New(from).CopyTo(to)
		if err == nil {
			err = private.New(from).CopyTo(to)
		}
		if err != nil {
			return fmt.Errorf("store %s: %w", s.Slug, err)
		}
		b.out.Conflicts += n
	}
	return nil
}

// contents copies the contents of a store that are not in the copied log.
func (b *embeddedBackup) contents(ctx context.Context, s versionlog.Store) error {
	wanted, err := b.copy.ContentsElsewhere(ctx, s.ID)
	if err != nil {
		return err
	}
	from, err := b.from.blobs(b.source, s.ID)
	if err != nil {
		return err
	}
	to, err := b.to.blobFiles(s.ID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan cas.Digest)
	var workers sync.WaitGroup
	b.done = 0
	for range min(backupWorkers, len(wanted)) {
		workers.Go(func() {
			for d := range queue {
				if err := b.content(ctx, s, d, from, to, len(wanted)); err != nil {
					cancel(err) // the first one counts
				}
			}
		})
	}
	for _, d := range wanted {
		if ctx.Err() != nil {
			break
		}
		queue <- d
	}
	close(queue)
	workers.Wait()
	return context.Cause(ctx)
}

// content copies one content. One that its store has lost is noted.
func (b *embeddedBackup) content(ctx context.Context, s versionlog.Store, d cas.Digest, from, to cas.Store, total int) error {
	data, err := from.Get(ctx, d)
	lost := errors.Is(err, cas.ErrNotFound) || errors.Is(err, cas.ErrCorrupt)
	if err == nil {
		_, err = to.Put(ctx, data)
	}
	if err != nil && !lost {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if lost {
		b.out.Lost = append(b.out.Lost, LostContent{Store: s, Digest: d})
	} else {
		b.out.Files++
	}
	b.done++
	b.progress("files of "+s.Slug, b.done, total)
	return nil
}

// leaveOutDeleted takes the stores out of the copy that were deleted since it
// began.
func (b *embeddedBackup) leaveOutDeleted(ctx context.Context) error {
	now, err := versionlog.AllStores(ctx, b.source)
	if err != nil {
		return err
	}
	var ids []string
	for _, s := range now {
		ids = append(ids, s.ID)
	}
	deleted := func(id string) bool { return !slices.Contains(ids, id) }
	if !slices.ContainsFunc(b.out.Stores, func(s BackupStore) bool { return deleted(s.ID) }) {
		return nil
	}
	for _, s := range b.out.Stores {
		if !deleted(s.ID) {
			continue
		}
		for _, name := range []string{storesDir, conflictsName} {
			if err := os.RemoveAll(filepath.Join(b.to.dir, name, s.ID)); err != nil {
				return err
			}
		}
	}
	b.out.Lost = slices.DeleteFunc(b.out.Lost, func(l LostContent) bool { return deleted(l.Store.ID) })
	b.out.Stores = slices.DeleteFunc(b.out.Stores, func(s BackupStore) bool { return deleted(s.ID) })
	return sqlitelog.Retain(ctx, b.to.dir, ids)
}
