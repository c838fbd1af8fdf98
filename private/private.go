// Package private remembers which files and directories of a store are closed to
// users whom the mode of a mount would let in. The history has no modes; without
// this, a private file would be open to them in the next mount.
package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"mneme/errkind"
	"mneme/internal/durable"
	"mneme/internal/safepath"
)

const (
	// FileName is the file in the directory of a Modes.
	FileName = "private"

	// maxLive bounds the lines that count, in bytes: some 20,000 files. maxFile bounds
	// them with those that later ones have replaced.
	maxLive = 1 << 20
	maxFile = 2 * maxLive
)

// ErrFull says that no more is remembered.
var ErrFull = errkind.New(errkind.OverQuota, "too many files and directories are more private than the mount; remove some, or make their directory private instead")

// Entry is the mode of one file or directory.
type Entry struct {
	Mode  uint32 // permission bits
	Since time.Time
}

// Change remembers a mode, or forgets it.
type Change struct {
	Key    string // a memory's id, or a path, which begins with a slash
	Mode   uint32
	Forget bool
}

// Modes are the modes that are remembered of a store, in a file that all mounts of
// it share. Each reads it when it begins, and adds to it. Its methods may be called at
// once. As root, the directory has to be one that only root may change
// (safepath.ErrUntrusted).
type Modes struct {
	dir *safepath.Root // nil: the modes last as long as the process

	writing sync.Mutex // held while the file is written

	mu    sync.RWMutex // guards the fields below; never held during I/O
	known map[string]Entry
	live  int // bytes of their lines
}

// New returns the modes in a directory, which need not be there yet; "" is none, and
// the modes then last as long as the process. It touches no disk.
func New(dir string) *Modes {
	m := &Modes{known: map[string]Entry{}}
	if dir != "" {
		m.dir = safepath.NewRoot(dir)
	}
	return m
}

// Load reads what was remembered before.
func (m *Modes) Load() error {
	if m.dir == nil {
		return nil
	}
	text, err := m.dir.ReadFile(FileName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = m.dir.Open() // reading alone does not ask whose it is
	}
	known := map[string]Entry{}
	if err == nil {
		known, err = parse(text)
	}
	if err != nil {
		return fmt.Errorf("which files are private: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known, m.live = known, 0
	for key, e := range known {
		m.live += len(line(key, e))
	}
	return nil
}

// Get returns the mode that is remembered of a key.
func (m *Modes) Get(key string) (mode uint32, known bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, known := m.known[key]
	return e.Mode, known
}

// Empty reports whether nothing is remembered.
func (m *Modes) Empty() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.known) == 0
}

// Find returns what is remembered of the keys that are wanted.
func (m *Modes) Find(wanted func(key string, e Entry) bool) map[string]Entry {
	m.mu.RLock()
	defer m.mu.RUnlock()
	found := map[string]Entry{}
	for key, e := range m.known {
		if wanted(key, e) {
			found[key] = e
		}
	}
	return found
}

// Note makes changes. When it returns nil they survive a crash of the machine; when it
// fails, none of them counts for this process. ErrFull.
func (m *Modes) Note(changes ...Change) error {
	if len(changes) == 0 {
		return nil
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.RLock()
	live := m.live
	for _, c := range changes {
		if e, known := m.known[c.Key]; known {
			live -= len(line(c.Key, e))
		}
		if !c.Forget {
			live += len(c.line(time.Now()))
		}
	}
	full := live > maxLive && live > m.live
	m.mu.RUnlock()
	if full {
		return ErrFull
	}
	now := time.Now().UTC().Truncate(time.Second)
	if m.dir != nil {
		if err := m.write(changes, now); err != nil {
			return fmt.Errorf("remember which files are private: %w", err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	apply(m.known, changes, now)
	m.live = live
	return nil
}

func apply(known map[string]Entry, changes []Change, now time.Time) {
	for _, c := range changes {
		if c.Forget {
			delete(known, c.Key)
		} else {
			known[c.Key] = Entry{c.Mode, now}
		}
	}
}

// write adds changes to the file. One that is new, too long, or cut off in the middle
// of a line is replaced.
func (m *Modes) write(changes []Change, now time.Time) error {
	root, err := m.dir.Make(0o700)
	if err != nil {
		return err
	}
	f, err := lock(root)
	if err != nil {
		return err
	}
	defer f.Close()
	var add strings.Builder
	for _, c := range changes {
		add.WriteString(c.line(now))
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	last := make([]byte, 1)
	if size := info.Size(); size > 0 && size+int64(add.Len()) <= maxFile {
		if _, err := f.ReadAt(last, size-1); err == nil && last[0] == '\n' {
			if _, err := f.WriteAt([]byte(add.String()), size); err != nil {
				return err
			}
			return durable.SyncData(f)
		}
	}
	return rewrite(root, f, changes, now)
}

// rewrite replaces the locked file by one with only the lines that count.
func rewrite(root *os.Root, f *os.File, changes []Change, now time.Time) error {
	text, err := safepath.ReadAll(f)
	if err != nil {
		return err
	}
	known, err := parse(text)
	if err != nil {
		return err
	}
	apply(known, changes, now)
	var all strings.Builder
	all.WriteString(header)
	for key, e := range known {
		all.WriteString(line(key, e))
	}
	if all.Len() > maxFile {
		return ErrFull
	}
	return durable.WriteFile(root, FileName, []byte(all.String()), 0o600)
}

// lock opens the file, and makes it if there is none, once no other process writes to
// it. Closing it lets the next one have it.
func lock(root *os.Root) (*os.File, error) {
	for {
		f, err := safepath.OpenFile(root, FileName, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		}
		mine, err := f.Stat()
		named, errNamed := root.Stat(FileName)
		if err == nil && errNamed == nil && os.SameFile(mine, named) {
			return f, nil
		}
		if err := f.Close(); err != nil { // another process has replaced it
			return nil, err
		}
	}
}

// CopyTo copies what is remembered into a directory, which is made if there is
// anything.
func (m *Modes) CopyTo(dir string) error {
	text, err := m.dir.ReadFile(FileName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("copy which files are private: %w", err)
	}
	root, err := safepath.NewRoot(dir).Make(0o700)
	if err != nil {
		return fmt.Errorf("copy which files are private: %w", err)
	}
	return durable.WriteFile(root, FileName, text, 0o600)
}
