// Package spool keeps the bytes of files that are durable and not in the history
// yet: a program has closed or synced them under a name that is not a memory's.
// A spool lives as long as its mount. The next mount settles a spool whose process has
// died.
package spool

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"mneme/internal/durable"
	"mneme/internal/safepath"
)

// Entry is what a spool keeps of a file.
type Entry struct {
	Key      string    `json:"key"` // idempotency key of the commit that makes it a memory
	Path     string    `json:"path"`
	Spelling string    `json:"spelling,omitempty"` // of Path, see versionlog.Version
	Session  string    `json:"session"`
	Time     time.Time `json:"time"`
	Mode     uint32    `json:"mode,omitempty"` // permission bits, if it is private; see package private
	File     uint64    `json:"file"`           // tells the files of one spool apart; 0: Write gives it one
	Number   uint64    `json:"n"`              // of two entries of one file, the higher one is the file; filled in by Write
	Data     []byte    `json:"-"`
}

const (
	dirPrefix = "spool-"
	lockName  = "lock"

	// A slot that is dropped is written to again, which costs the disk less than
	// a new file: few of them are kept for that, and no large ones.
	maxFree      = 4
	maxFreeBytes = 1 << 20
)

// ErrEnded says that a spool takes nothing any more.
var ErrEnded = errors.New("the mount has ended")

// Spool is the spool of one mount of one store: a directory that the living
// process has locked, with a file, a slot, for each entry. It is made when the
// first entry is written. Its methods may be called at once from many goroutines.
//
// The life of a slot: it is free, or there is none; Write fills it, and its bytes
// survive the process; Sync makes them survive the machine; Drop writes one byte,
// which says that the entry is settled, and the slot is free. An entry never
// overwrites a slot that is not free: one that is cut off in the middle costs
// nothing that was acknowledged before.
type Spool struct {
	parent *safepath.Root
	limit  int64

	mu      sync.Mutex // guards the fields below
	root    *os.Root   // of parent; nil before the first entry
	dir     string     // in it
	lock    *os.File
	ended   bool
	slots   int // that were ever made
	entries uint64
	bytes   int64 // in entries
	free    []*Slot
	used    map[*Slot]bool // that are not free; true: the next Drop removes it
}

// New returns a spool below parent, of at most limit bytes. It touches no disk. As
// root, parent has to be a directory that only root may change.
func New(parent string, limit int64) *Spool {
	return &Spool{parent: safepath.NewRoot(parent), limit: limit, used: map[*Slot]bool{}}
}

// Slot holds one entry. Its methods may not be called at once.
type Slot struct {
	spool *Spool
	name  string // below the parent of the spool
	f     *os.File
	file  uint64
	size  int64 // of the entry's record
	most  int64 // that ever were in it
	named bool  // its name is durable
}

// Write keeps an entry. When it returns nil, the entry survives the death of the
// process. Errors keep the syscall.Errno they were; ENOSPC when the limit would be
// passed; ErrEnded.
func (s *Spool) Write(e Entry) (*Slot, error) {
	s.mu.Lock()
	s.entries++
	e.Number = s.entries
	s.mu.Unlock()
	if e.File == 0 {
		e.File = e.Number
	}
	record, err := encode(&e)
	if err != nil {
		return nil, fmt.Errorf("spool %s: %w", e.Path, err)
	}
	slot, err := s.take(int64(len(record)))
	if err != nil {
		return nil, fmt.Errorf("spool %s: %w", e.Path, err)
	}
	slot.file = e.File
	if _, err := slot.f.WriteAt(record, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("spool %s: %w", e.Path, err), slot.Drop())
	}
	return slot, nil
}

// take returns a slot for a record of that size.
func (s *Spool) take(size int64) (*Slot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return nil, ErrEnded
	case s.bytes+size > s.limit:
		return nil, fmt.Errorf("%d bytes wait to be renamed or removed, %d more are above the limit of %d: %w", s.bytes, size, s.limit, syscall.ENOSPC)
	}
	if s.root == nil {
		if err := s.beginLocked(); err != nil {
			return nil, err
		}
	}
	var slot *Slot
	if n := len(s.free); n > 0 {
		slot, s.free = s.free[n-1], s.free[:n-1]
	} else {
		name := filepath.Join(s.dir, strconv.Itoa(s.slots+1))
		f, err := s.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		s.slots++
		slot = &Slot{spool: s, name: name, f: f}
	}
	slot.size = size
	slot.most = max(slot.most, size)
	s.used[slot] = false
	s.bytes += size
	return slot, nil
}

// beginLocked makes the directory. It has its name only once it is locked.
func (s *Spool) beginLocked() error {
	root, err := s.parent.Make(0o700)
	if err != nil {
		return err
	}
	temp, dir := durable.TempName(""), dirPrefix+randomName()
	if err := root.Mkdir(temp, 0o700); err != nil {
		return err
	}
	lock, err := root.OpenFile(filepath.Join(temp, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return errors.Join(err, root.RemoveAll(temp))
	}
	err = durable.TryLock(lock)
	if err == nil {
		err = root.Rename(temp, dir)
	}
	if err != nil {
		return errors.Join(err, lock.Close(), root.RemoveAll(temp))
	}
	if err := durable.SyncDirIn(root, "."); err != nil {
		return errors.Join(err, lock.Close(), root.RemoveAll(dir))
	}
	s.root, s.dir, s.lock = root, dir, lock
	return nil
}

func randomName() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:])
}

// File is that of the slot's entry.
func (slot *Slot) File() uint64 { return slot.file }

// Sync makes the entry survive a crash of the machine.
func (slot *Slot) Sync() error {
	if slot.named {
		return durable.SyncData(slot.f)
	}
	if err := durable.Sync(slot.f); err != nil {
		return err
	}
	if err := durable.SyncDirIn(slot.spool.root, filepath.Dir(slot.name)); err != nil {
		return err
	}
	slot.named = true
	return nil
}

// Read returns the slot's entry as it is on disk.
func (slot *Slot) Read() (*Entry, error) {
	record := make([]byte, slot.size)
	if _, err := slot.f.ReadAt(record, 0); err != nil {
		return nil, err
	}
	return decode(record)
}

// Drop says that the entry is settled, and frees the slot, which the caller has
// no more. That survives the death of the process; after a crash of the machine
// the entry may be there again.
func (slot *Slot) Drop() error {
	_, err := slot.f.WriteAt([]byte{dropped}, int64(stateAt))
	s := slot.spool
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= slot.size
	wiped := s.used[slot]
	delete(s.used, slot)
	if err == nil && !s.ended && !wiped && len(s.free) < maxFree && slot.most <= maxFreeBytes {
		s.free = append(s.free, slot)
		return nil
	}
	return errors.Join(s.root.Remove(slot.name), slot.f.Close())
}

// Wipe erases settled entries: it removes the files of slots that are free, and cuts the others
// off behind their records. These are not used again, since their bytes may already be settled,
// and erased from the history.
func (s *Spool) Wipe() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, slot := range s.free {
		errs = append(errs, s.root.Remove(slot.name), slot.f.Close())
	}
	s.free = nil
	for slot := range s.used {
		s.used[slot] = true
		if slot.most > slot.size {
			errs = append(errs, slot.f.Truncate(slot.size))
		}
	}
	return errors.Join(errs...)
}

// End returns what is left of a spool that takes no more entries, for the caller
// to settle; nil when nothing was ever written.
func (s *Spool) End() *Left {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.root == nil {
		s.ended = true
		return nil
	}
	s.ended = true
	return &Left{root: s.root, dir: s.dir, lock: s.lock}
}
