package dynamolog

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"mneme/internal/durable"
	"mneme/versionlog"
)

// snapshotFormat is the number of the format of snapshots. A snapshot of another
// is ignored.
const snapshotFormat = 2

// snapshot is what stands at the beginning of a snapshot file. Heads as many as
// it says follow, and then the SHA-256 of all before it. It is a copy of what
// the table has, so a file that is lost or damaged costs a walk and no more.
type snapshot struct {
	Format   int
	StoreID  string
	Creation string
	Tip      versionlog.Tip
	Heads    int
}

// snapshotDir returns the directory of a table's snapshots, "" when there are to
// be none.
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
	saved, err := s.readSnapshot()
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.log.logger.Warn("the local copy of the heads is of no use, reading them again", "store", s.id, "op", "resume", "err", err)
		}
		return nil
	}
	m, err := s.log.table.meta(ctx, s.id)
	if err != nil {
		return err
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
			if !saved.apply(c) { // it is of another history
				return nil
			}
		}
	}
	saved.meta.Store, saved.meta.tip.ArchivedAt = m.Store, m.ArchivedAt
	saved.meta.tip.Totals, saved.meta.uncounted = m.tip.Totals, m.uncounted
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

// readSnapshot returns the view of a snapshot.
func (s *store) readSnapshot() (*view, error) {
	data, err := os.ReadFile(s.snapshotPath())
	if err != nil {
		return nil, err
	}
	n := len(data) - sha256.Size
	if n < 0 || sha256.Sum256(data[:n]) != [sha256.Size]byte(data[n:]) {
		return nil, fmt.Errorf("%s: %w: it does not match its checksum", s.snapshotPath(), versionlog.ErrCorrupt)
	}
	decoder := gob.NewDecoder(bytes.NewReader(data[:n]))
	var head snapshot
	if err := decoder.Decode(&head); err != nil {
		return nil, err
	}
	if head.Format != snapshotFormat || head.StoreID != s.id {
		return nil, fmt.Errorf("%s: it has format %d and is of store %s", s.snapshotPath(), head.Format, head.StoreID)
	}
	v := newView(&meta{Store: versionlog.Store{ID: s.id}, creation: head.Creation, tip: head.Tip}, s.log.bounds)
	if head.Heads > v.bounds.heads {
		return nil, fmt.Errorf("%s: it has %d heads", s.snapshotPath(), head.Heads)
	}
	for range head.Heads {
		one := new(versionlog.Version)
		if err := decoder.Decode(one); err != nil {
			return nil, err
		}
		v.known[one.Path] = fact{version: one, asOf: one.Seq}
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
	head := snapshot{Format: snapshotFormat, StoreID: s.id, Creation: v.meta.creation, Tip: v.meta.tip, Heads: len(v.known)}
	heads := v.all()
	s.savedAt = v.meta.tip.Seq
	s.mu.Unlock()
	if err := s.writeSnapshot(head, heads); err != nil {
		s.log.logger.Warn("the local copy of the heads could not be written", "store", s.id, "op", "save", "err", err)
	}
}

func (s *store) writeSnapshot(head snapshot, heads []*versionlog.Version) error {
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
	sum := sha256.New()
	buffered := bufio.NewWriterSize(f, 1<<16)
	encoder := gob.NewEncoder(io.MultiWriter(buffered, sum))
	if err := encoder.Encode(head); err != nil {
		return err
	}
	for _, one := range heads {
		if err := encoder.Encode(one); err != nil {
			return err
		}
	}
	if _, err := buffered.Write(sum.Sum(nil)); err != nil {
		return err
	}
	if err := errors.Join(buffered.Flush(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), s.snapshotPath()) // not synced: the checksum tells a file that a crash cut short
}

// removeSnapshot removes the snapshot of a store that is gone.
func (s *store) removeSnapshot() {
	if s.log.snapshots != "" {
		_ = os.Remove(s.snapshotPath()) // there may be none, and it is of no use any more
	}
}
