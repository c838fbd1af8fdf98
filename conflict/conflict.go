// Package conflict keeps what lost a race for a memory, so that nothing that
// anybody wrote is gone: what the loser wrote, what it was based on, and what
// was there instead. Kept conflicts are plain files outside the history; a
// person or an agent looks at them and decides.
package conflict

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mneme/internal/durable"
	"mneme/versionlog"
)

// Life is how long a conflict is kept.
const Life = 30 * 24 * time.Hour

// The names of a conflict's files.
const (
	BaseFile   = "base"   // what the loser had read; missing when it had seen no memory there
	TheirsFile = "theirs" // what was there instead; missing when that was no memory
	YoursFile  = "yours"  // what the loser wrote
	AboutFile  = "about"  // an About as JSON
)

// ErrNotFound says that there is no conflict of that number.
var ErrNotFound = errors.New("no such conflict")

// About describes a conflict.
type About struct {
	ID      int       `json:"id"` // counts from 1 in each store; not used again
	Store   string    `json:"store"`
	Path    string    `json:"path"`
	Session string    `json:"session"` // whose text lost
	Time    time.Time `json:"time"`
	Why     string    `json:"why"`
	Base    *Side     `json:"base"`   // nil: no memory
	Theirs  *Side     `json:"theirs"` // nil: no memory
	Size    int64     `json:"size"`   // of yours, in bytes
}

// Side is the version on one side of a conflict.
type Side struct {
	Version string    `json:"version_id"`
	Seq     uint64    `json:"seq"`
	Path    string    `json:"path"`
	Actor   string    `json:"actor"`
	Session string    `json:"session,omitempty"`
	Time    time.Time `json:"time"`
	Size    int64     `json:"size"`
	SHA256  string    `json:"sha256"`
}

// SideOf describes a version; nil is no memory.
func SideOf(v *versionlog.Version) *Side {
	if v == nil {
		return nil
	}
	return &Side{
		Version: v.ID, Seq: v.Seq, Path: v.Path, Actor: v.Actor.String(), Session: v.Session, Time: v.Time,
		Size: v.Size, SHA256: hex.EncodeToString(v.Digest[:]),
	}
}

// Texts are the contents of a conflict. A nil base or theirs has no file: there
// was no memory, or its bytes could not be had.
type Texts struct{ Base, Theirs, Yours []byte }

// Store keeps the conflicts of one memory store in a directory. Its methods may
// be called at once from many goroutines and processes.
type Store struct{ dir string }

// New returns the conflicts kept in dir, which is made when there is one.
func New(dir string) *Store { return &Store{dir: dir} }

// Keep keeps a conflict and returns its number; about.ID and about.Size are
// filled in. When it returns nil the conflict survives a crash of the machine.
func (s *Store) Keep(about About, texts Texts) (int, error) {
	if err := durable.MkdirAll(s.dir, 0o700); err != nil {
		return 0, fmt.Errorf("keep conflict of %s: %w", about.Path, err)
	}
	temp, err := os.MkdirTemp(s.dir, durable.TempPrefix+"*")
	if err != nil {
		return 0, fmt.Errorf("keep conflict of %s: %w", about.Path, err)
	}
	id, err := s.fill(temp, about, texts)
	if err != nil {
		return 0, errors.Join(fmt.Errorf("keep conflict of %s: %w", about.Path, err), os.RemoveAll(temp))
	}
	return id, nil
}

func (s *Store) fill(temp string, about About, texts Texts) (int, error) {
	about.Size = int64(len(texts.Yours))
	for name, data := range map[string][]byte{BaseFile: texts.Base, TheirsFile: texts.Theirs} {
		if data == nil {
			continue
		}
		if err := durable.WriteFile(filepath.Join(temp, name), data, 0o600); err != nil {
			return 0, err
		}
	}
	if err := durable.WriteFile(filepath.Join(temp, YoursFile), texts.Yours, 0o600); err != nil {
		return 0, err
	}
	last, err := s.lockLast()
	if err != nil {
		return 0, err
	}
	defer last.Close()
	if about.ID, err = s.next(last); err != nil {
		return 0, err
	}
	if err := writeAbout(temp, about); err != nil {
		return 0, err
	}
	if err := os.Rename(temp, s.dirOf(about.ID)); err != nil {
		return 0, err
	}
	// Only for not using numbers again: the conflict itself is complete.
	_, _ = last.WriteAt([]byte(strconv.Itoa(about.ID)), 0)
	return about.ID, durable.SyncDir(s.dir)
}

func writeAbout(dir string, about About) error {
	text, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, AboutFile), append(text, '\n'), 0o600)
}

// lastFile holds the highest number that was ever given, as far as is known. Who
// gives a number has it locked.
const lastFile = "last"

// lockLast opens the last file once nobody else has it; closing it lets the next
// one have it.
func (s *Store) lockLast() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, lastFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		}
	}
}

func (s *Store) next(last io.Reader) (int, error) {
	ids, err := s.IDs()
	if err != nil {
		return 0, err
	}
	highest := 0
	if text, err := io.ReadAll(last); err == nil {
		highest, _ = strconv.Atoi(string(text))
	}
	if len(ids) > 0 {
		highest = max(highest, ids[len(ids)-1])
	}
	return highest + 1, nil
}

// Rewrite replaces what the loser wrote, who has written more since, as durably
// as Keep. ErrNotFound.
func (s *Store) Rewrite(id int, yours []byte) error {
	about, err := s.About(id)
	if err != nil {
		return err
	}
	dir := s.dirOf(id)
	if err := durable.WriteFile(filepath.Join(dir, YoursFile), yours, 0o600); err != nil {
		return fmt.Errorf("conflict %d: %w", id, err)
	}
	about.Size = int64(len(yours))
	if err := writeAbout(dir, about); err != nil {
		return fmt.Errorf("conflict %d: %w", id, err)
	}
	return nil
}

func (s *Store) dirOf(id int) string { return filepath.Join(s.dir, strconv.Itoa(id)) }

// IDs returns the numbers of the conflicts that are kept, in order.
func (s *Store) IDs() ([]int, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list conflicts: %w", err)
	}
	var ids []int
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil && id > 0 && strconv.Itoa(id) == e.Name() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// List returns the conflicts in order. One that is resolved meanwhile is left out.
func (s *Store) List() ([]About, error) {
	ids, err := s.IDs()
	if err != nil {
		return nil, err
	}
	var list []About
	for _, id := range ids {
		about, err := s.About(id)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, about)
	}
	return list, nil
}

// About describes a conflict. ErrNotFound.
func (s *Store) About(id int) (About, error) {
	text, err := s.Read(id, AboutFile)
	if err == nil && text == nil {
		err = fmt.Errorf("conflict %d: %w", id, ErrNotFound)
	}
	if err != nil {
		return About{}, err
	}
	var about About
	if err := json.Unmarshal(text, &about); err != nil {
		return About{}, fmt.Errorf("conflict %d: %s: %w", id, AboutFile, err)
	}
	return about, nil
}

// Read returns one of a conflict's files, nil when the conflict has none of
// that name. ErrNotFound.
func (s *Store) Read(id int, name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(s.dirOf(id), name))
	switch {
	case err == nil:
		return append([]byte{}, data...), nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("conflict %d: %w", id, err)
	}
	if _, err := os.Stat(s.dirOf(id)); err != nil {
		return nil, fmt.Errorf("conflict %d: %w", id, ErrNotFound)
	}
	return nil, nil
}

// Remove forgets a conflict, which is settled. ErrNotFound.
func (s *Store) Remove(id int) error {
	// Renamed first, so that a conflict is there whole or not at all.
	temp := filepath.Join(s.dir, fmt.Sprintf("%sgone-%d", durable.TempPrefix, id))
	err := os.Rename(s.dirOf(id), temp)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("conflict %d: %w", id, ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("conflict %d: %w", id, err)
	}
	return os.RemoveAll(temp)
}

// RemoveAll removes all conflicts with the directory that keeps them.
func (s *Store) RemoveAll() error { return os.RemoveAll(s.dir) }

// Expire removes the conflicts that are older than Life at now, and what
// processes that were killed have left behind.
func (s *Store) Expire(now time.Time) error {
	list, err := s.List()
	if err != nil {
		return err
	}
	for _, about := range list {
		if now.Sub(about.Time) <= Life {
			continue
		}
		if err := s.Remove(about.ID); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return s.sweep(now)
}

func (s *Store) sweep(now time.Time) error {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !strings.HasPrefix(e.Name(), durable.TempPrefix) || now.Sub(info.ModTime()) < time.Hour {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
