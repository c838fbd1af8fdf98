package dynamolog

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"mneme/internal/durable"
	"mneme/versionlog"
	"mneme/versionlog/snapshot"
)

// snapshotDir returns the directory of a table's snapshots, "" if none are kept.
func snapshotDir(dir, bucket, tableName string) string {
	if dir == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(bucket + "\x00" + tableName))
	return filepath.Join(dir, hex.EncodeToString(sum[:8]))
}

// resume gives the store a view that knows all heads, from a snapshot and the
// commits since, if it has none and there is a snapshot that is worth it.
func (s *store) resume(ctx context.Context) error {
	s.mu.Lock()
	tried := s.resumed || s.view != nil && s.view.complete
	s.resumed = true
	s.mu.Unlock()
	if tried || s.log.snapshots == "" {
		return nil
	}
	saved, err := s.readSnapshot(ctx)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.logger.Warn("the local copy of the heads is of no use, reading them again", "store", s.id, "op", "resume", "err", err)
		}
		return nil
	}
	m, err := s.log.table.meta(ctx, s.id)
	if err != nil {
		return err
	}
	if saved.meta.tip.Seq < m.redacted { // it has erased versions; the process that noticed that removes it
		return nil
	}
	behind := m.tip.Seq - saved.meta.tip.Seq // huge when the copy is ahead
	if m.creation != saved.meta.creation || behind > uint64(len(saved.known)/10)+maxCatchUp {
		return nil
	}
	if behind == 0 && m.tip.Digest != saved.meta.tip.Digest {
		return nil
	}
	savedAt := saved.meta.tip.Seq
	for i, err := range s.log.table.rows(ctx, between{partition: s.id, from: logSort(savedAt + 1), to: logSort(m.tip.Seq)}) {
		if err != nil {
			return err
		}
		commits, err := commitsOf(i)
		if err != nil {
			return err
		}
		for _, c := range commits {
			if !saved.apply(c) { // it is of another history, or was erased meanwhile
				return nil
			}
		}
	}
	if saved.meta.tip.Digest != m.tip.Digest { // the row of a commit may be seen after META that tells of it
		return nil
	}
	saved.meta.Store, saved.meta.tip.ArchivedAt = m.Store, m.ArchivedAt
	saved.meta.tip.Totals, saved.meta.uncounted = m.tip.Totals, m.uncounted
	saved.meta.redacted, saved.meta.erased, saved.meta.fence = m.redacted, m.erased, m.fence
	s.adopt(saved, savedAt)
	return nil
}

// adopt makes a view the store's, unless that would take it back.
func (s *store) adopt(v *view, savedAt uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view != nil {
		since, ok := s.view.since(v.meta.tip.Seq)
		for _, c := range since {
			ok = ok && v.apply(c)
		}
		if !ok || v.meta.tip.Seq < s.view.meta.tip.Seq {
			return
		}
	} else {
		s.sweepLater(0)
	}
	s.view, s.savedAt = v, savedAt
}

func (s *store) snapshotPath() string { return filepath.Join(s.log.snapshots, s.id) }

// openSnapshot opens the snapshot of the store, a copy of the heads in the table: a lost or
// damaged one costs only a walk. The file is not needed after the call.
func (s *store) openSnapshot(ctx context.Context) (*snapshot.Snapshot, error) {
	data, err := os.ReadFile(s.snapshotPath())
	if err != nil {
		return nil, err
	}
	files, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", s.snapshotPath(), versionlog.ErrCorrupt, err)
	}
	saved, err := snapshot.Open(ctx, snapshot.FromFS(files))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.snapshotPath(), err)
	}
	if saved.StoreID != s.id {
		return nil, fmt.Errorf("%s: it is of store %q", s.snapshotPath(), saved.StoreID)
	}
	return saved, nil
}

// snapshotBefore returns the snapshot of the store if there is one, it is not of a commit
// before from or behind seq, and all of it is whole.
func (s *store) snapshotBefore(ctx context.Context, from, seq uint64) *snapshot.Snapshot {
	if s.log.snapshots == "" {
		return nil
	}
	saved, err := s.openSnapshot(ctx)
	if err != nil || saved.Tip.Seq < from || saved.Tip.Seq > seq || saved.Check(ctx) != nil {
		return nil
	}
	return saved
}

// readSnapshot returns the view of the snapshot.
func (s *store) readSnapshot(ctx context.Context) (*view, error) {
	saved, err := s.openSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	v := newView(&meta{Store: versionlog.Store{ID: s.id}, creation: saved.Creation, tip: saved.Tip}, s.log.bounds)
	for one, err := range saved.Heads(ctx) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.snapshotPath(), err)
		}
		if len(v.known) == v.bounds.heads {
			return nil, fmt.Errorf("%s: it has more than %d heads", s.snapshotPath(), v.bounds.heads)
		}
		v.known[one.Path] = fact{version: &one, asOf: one.Seq}
	}
	v.knowAll()
	return v, nil
}

// saveSnapshot writes what the view knows, if it knows all heads and more than
// the last snapshot.
func (s *store) saveSnapshot() {
	s.mu.Lock()
	v := s.view
	if s.log.snapshots == "" || v == nil || !v.complete || v.meta.tip.Seq == s.savedAt {
		s.mu.Unlock()
		return
	}
	at := snapshot.Point{StoreID: s.id, Creation: v.meta.creation, Tip: v.meta.tip}
	if v.meta.uncounted {
		at.Tip.Totals = versionlog.Totals{}
	}
	heads := v.all()
	s.savedAt = at.Tip.Seq
	s.mu.Unlock()
	if err := s.writeSnapshot(at, heads); err != nil {
		s.log.logger.Warn("the local copy of the heads could not be written", "store", s.id, "op", "save", "err", err)
	}
}

func (s *store) writeSnapshot(at snapshot.Point, heads []*versionlog.Version) error {
	if err := durable.MkdirAll(s.log.snapshots, 0o700); err != nil {
		return err
	}
	if err := durable.Sweep(s.log.snapshots, time.Hour); err != nil { // of processes that were killed
		return err
	}
	f, err := os.CreateTemp(s.log.snapshots, durable.TempPrefix+"*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	buffered := bufio.NewWriterSize(f, 1<<16)
	files := zip.NewWriter(buffered)
	err = snapshot.Write(context.Background(), intoZip{files}, at, func(yield func(versionlog.Version, error) bool) {
		for _, one := range heads {
			if !yield(*one, nil) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if err := errors.Join(files.Close(), buffered.Flush(), f.Close()); err != nil {
		return err
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	if s.redactedSince(at.Tip.Seq) {
		return nil
	}
	return os.Rename(f.Name(), s.snapshotPath()) // not synced: the hashes tell a file that a crash cut short
}

// intoZip puts the objects of a snapshot into one file, as they are.
type intoZip struct{ files *zip.Writer }

func (z intoZip) Put(_ context.Context, name string, data []byte) error {
	w, err := z.files.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// removeSnapshot removes the snapshot of the store.
func (s *store) removeSnapshot() {
	if s.log.snapshots != "" {
		_ = os.Remove(s.snapshotPath()) // there may be none, and it is of no use any more
		_ = os.Remove(s.forgottenPath())
	}
}
