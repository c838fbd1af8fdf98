// Package witness remembers how far the histories of stores have come, in files
// outside the stores, on each machine that writes to them. A history that was cut,
// rewritten with digests that fit each other, or put back to an older copy is
// sound in itself; it takes a witness of the earlier history to notice.
package witness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mneme/internal/durable"
	"mneme/versionlog"
)

// Witness remembers the stores of one library. Its methods may be called at once
// from many goroutines, and many processes may remember one library.
//
// A store's file has the highest sequence number that was seen in it, and is
// replaced as a whole, without a sync:
//
//  1. A file never leads: a commit is noted when it has been acknowledged, or when
//     a store that is open for writing has read it from the log, and is durable
//     then. A file may lag, by what a killed process had not written yet, or after
//     a power cut.
//  2. A store is compared when it is opened for writing, before anything of it is
//     noted. If the history does not fit, the file stays as it is until Accept.
//  3. A file that cannot be read says nothing. If a file cannot be written, nothing
//     is remembered, and the commit stands.
type Witness struct {
	library, dir string
	every        time.Duration // how often a file is written at most while commits come

	mu    sync.Mutex // guards the fields below
	notes map[string]*note
}

// note is what this process has seen of a store that it has compared.
type note struct {
	memo
	dirty   bool
	written time.Time   // the file, by this process
	file    os.FileInfo // which holds nothing newer; nil: there was none
}

// MissingError says which commit was seen and is missing, or is another now. It is
// versionlog.ErrRewritten, under errors.Is.
type MissingError struct {
	Store string // its slug
	What  string
}

func (e *MissingError) Error() string { return versionlog.ErrRewritten.Error() + ": " + e.What }

// Unwrap returns versionlog.ErrRewritten.
func (e *MissingError) Unwrap() error { return versionlog.ErrRewritten }

// New returns the witness of a library, whose files are in a directory of their
// own below dir, which is made when there is one.
func New(dir, library string) *Witness {
	sum := sha256.Sum256([]byte(library))
	return &Witness{library: library, dir: filepath.Join(dir, hex.EncodeToString(sum[:8])), every: 5 * time.Second, notes: map[string]*note{}}
}

// Check compares the history of a store, which is being opened for writing, with
// what is remembered. From then on Saw notes its commits. It returns
// a *MissingError when a commit that was seen is missing or another.
func (w *Witness) Check(ctx context.Context, log versionlog.Log, s versionlog.Store) error {
	file := w.stat(s.ID) // first: another process may replace it
	if w.fits(ctx, log, s, file) {
		return nil
	}
	tip, what, err := w.compare(ctx, log, s)
	if err == nil && what != "" {
		err = &MissingError{s.Slug, what}
	}
	if err != nil {
		return err
	}
	// The description that is noted with the tip has all events up to it.
	if s, err = log.Store(ctx, s.ID); err != nil {
		return err
	}
	n := &note{memo: w.memo(tip, s), dirty: true, file: file}
	changed, err := w.Changed(ctx, log, s)
	if err != nil {
		return err
	}
	if was, known := w.read(s.ID); known && changed != nil {
		n.Store, n.Described = was.Store, was.Described // until a person accepts the change
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := w.notes[s.ID]; last != nil {
		n.written = last.written
	}
	w.notes[s.ID] = n
	return nil
}

// fits reports whether nothing has happened to a store but what this process has noted, and commits
// that follow it: neither has its file changed, nor is it described otherwise. It reads no record.
func (w *Witness) fits(ctx context.Context, log versionlog.Log, s versionlog.Store, file os.FileInfo) bool {
	w.mu.Lock()
	n := w.notes[s.ID]
	if n == nil || !isUnchanged(n.file, file) {
		w.mu.Unlock()
		return false
	}
	seen := n.memo
	w.mu.Unlock()
	if was := seen.Store.Store(); differs(&was, &s) != nil {
		return false
	}
	tip, err := log.Tip(ctx, s.ID)
	if err != nil || tip.Seq < seen.Seq || tip.Seq == seen.Seq && tip.Digest != seen.Digest {
		return false
	}
	if tip.Seq == seen.Seq {
		return true
	}
	if !follows(ctx, log, s.ID, &seen, &tip) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.Seq < tip.Seq {
		n.Seq, n.Digest, n.dirty = tip.Seq, tip.Digest, true
	}
	return true
}

// handedOut is how long commits may take that a log need only hand out.
const handedOut = time.Second

// follows reports whether the commits that a log has at hand lead from what was seen to the tip: the
// chain of their digests tells.
func follows(ctx context.Context, log versionlog.Log, storeID string, seen *memo, tip *versionlog.Tip) bool {
	can := log.Capabilities()
	if !can.Near || can.Next == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, handedOut)
	defer cancel()
	commits, err := can.Next(ctx, storeID, seen.Seq)
	last := seen.Digest
	for _, c := range commits {
		if err != nil || c.Prev != last || c.Seq > tip.Seq {
			return false
		}
		last = c.Digest
		if c.Seq == tip.Seq {
			return last == tip.Digest
		}
	}
	return false
}

// isUnchanged reports whether a file is still what it was.
func isUnchanged(was, is os.FileInfo) bool {
	if was == nil || is == nil {
		return was == is
	}
	return os.SameFile(was, is) && was.ModTime().Equal(is.ModTime()) && was.Size() == is.Size()
}

// stat returns nil if a store has no file.
func (w *Witness) stat(storeID string) os.FileInfo {
	info, err := os.Stat(w.path(storeID))
	if err != nil {
		return nil
	}
	return info
}

// Saw notes that a commit is in the history of a store that was checked. It writes
// it down now and then.
func (w *Witness) Saw(storeID string, seq uint64, digest versionlog.Digest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.notes[storeID]
	if n == nil || seq <= n.Seq {
		return
	}
	n.Seq, n.Digest, n.dirty = seq, digest, true
	if time.Since(n.written) >= w.every {
		w.writeLocked(n)
	}
}

// Close writes what has been noted and is not in the files yet.
func (w *Witness) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.notes {
		w.writeLocked(n)
	}
}

// Forget forgets a store, which was deleted.
func (w *Witness) Forget(storeID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.notes, storeID)
	_ = os.Remove(w.path(storeID))
}

// Accept remembers a store as it is now, whatever was remembered.
func (w *Witness) Accept(ctx context.Context, log versionlog.Log, s versionlog.Store) error {
	tip, err := log.Tip(ctx, s.ID)
	if err != nil {
		return err
	}
	m := w.memo(tip, s)
	_, err = w.replace(&m)
	return err
}

// Missing describes the commit that was seen and is missing from the history of a
// store, or is another now; "" when there is none. An error says that the log could
// not be read.
func (w *Witness) Missing(ctx context.Context, log versionlog.Log, s versionlog.Store) (string, error) {
	if _, known := w.read(s.ID); !known {
		return "", nil
	}
	_, what, err := w.compare(ctx, log, s)
	return what, err
}

func (w *Witness) compare(ctx context.Context, log versionlog.Log, s versionlog.Store) (tip versionlog.Tip, what string, err error) {
	m, known := w.read(s.ID) // first: the history is never behind what was remembered before
	if tip, err = log.Tip(ctx, s.ID); err != nil || !known || m.Seq == 0 {
		return tip, "", err
	}
	if m.Seq > tip.Seq {
		return tip, fmt.Sprintf("this machine has seen commit %d of it, and it ends at %d", m.Seq, tip.Seq), nil
	}
	there := tip.Digest
	if m.Seq < tip.Seq {
		c, err := commitAt(ctx, log, s.ID, m.Seq)
		if err != nil || c == nil {
			return tip, "", err
		}
		there = c.Digest
	}
	if there != m.Digest {
		return tip, fmt.Sprintf("commit %d is another than the one that this machine has seen: the history was rewritten", m.Seq), nil
	}
	return tip, "", nil
}

// commitAt returns a commit by its sequence number, nil when its record is damaged:
// verifying the store reports that.
func commitAt(ctx context.Context, log versionlog.Log, storeID string, seq uint64) (*versionlog.Commit, error) {
	c, err := versionlog.CommitAt(ctx, log, storeID, seq)
	if errors.Is(err, versionlog.ErrCorrupt) {
		return nil, nil
	}
	return c, err
}

// Changed names the parts of a store's description that differ from what is
// remembered, and from what events in the history have made of that since. An error
// says that the log could not be read.
func (w *Witness) Changed(ctx context.Context, log versionlog.Log, s versionlog.Store) ([]string, error) {
	m, known := w.read(s.ID)
	if !known {
		return nil, nil
	}
	was := m.Store.Store()
	fields := differs(&was, &s)
	if fields == nil {
		return nil, nil
	}
	for c, err := range log.Commits(ctx, s.ID, m.Described) {
		if errors.Is(err, versionlog.ErrCorrupt) { // verifying the store reports that
			break
		}
		if err != nil {
			return nil, err
		}
		was = was.After(c, true)
	}
	return differs(&was, &s), nil
}

// differs names the parts of a store's description that are others later. That a store is archived without
// an event is a mneme's doing that knew none.
func differs(was, is *versionlog.Store) (fields []string) {
	for _, field := range []struct {
		name string
		same bool
	}{
		{"slug", was.Slug == is.Slug}, {"name", was.Name == is.Name}, {"description", was.Description == is.Description},
		{"limits", was.Limits == is.Limits}, {"time of creation", was.CreatedAt.Equal(is.CreatedAt)},
		{"time of archiving", was.ArchivedAt.IsZero() || was.ArchivedAt.Equal(is.ArchivedAt)},
	} {
		if !field.same {
			fields = append(fields, field.name)
		}
	}
	return fields
}

// writeLocked writes a note down unless another process has seen more. Another process may
// know a newer description of the store.
func (w *Witness) writeLocked(n *note) {
	if !n.dirty {
		return
	}
	n.dirty, n.written = false, time.Now()
	m, known := w.read(n.Store.ID)
	if known && m.Seq > n.Seq {
		return
	}
	if known && m.Described > n.Described {
		n.Store, n.Described = m.Store, m.Described
	}
	if file, err := w.replace(&n.memo); err == nil {
		n.file = file
	}
}

func (w *Witness) replace(m *memo) (file os.FileInfo, err error) {
	text, err := json.Marshal(m)
	if err == nil {
		err = os.MkdirAll(w.dir, 0o700)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(w.dir, durable.TempPrefix+"*")
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(append(text, '\n')); err == nil {
		file, err = f.Stat()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), w.path(m.Store.ID))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return file, err
}

// read returns what is remembered of a store.
func (w *Witness) read(storeID string) (m memo, known bool) {
	text, err := os.ReadFile(w.path(storeID))
	if err != nil || json.Unmarshal(text, &m) != nil {
		return memo{}, false
	}
	return m, m.Format == format && m.Store.ID == storeID
}

func (w *Witness) path(storeID string) string {
	return filepath.Join(w.dir, strings.ReplaceAll(storeID, "/", "_"))
}
