// Package conflict keeps writes that lost a race for a memory, so that no writer's text is
// lost: the loser's text, the text that it was based on, and the text at the path. Kept
// conflicts are plain files outside the history; a person or an agent looks at them and
// decides.
package conflict

import (
	"bytes"
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
	"syscall"
	"time"

	"mneme/errkind"
	"mneme/internal/durable"
	"mneme/internal/quote"
	"mneme/internal/safepath"
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
var ErrNotFound = errkind.New(errkind.NotFound, "no such conflict")

// About describes a conflict.
type About struct {
	ID      int       `json:"id"` // counts from 1 in each store; not used again
	Store   string    `json:"store"`
	Path    string    `json:"path"`
	Session string    `json:"session"` // whose text lost
	Time    time.Time `json:"time"`
	Why     string    `json:"why"`
	Base    *Side     `json:"base"`             // nil: no memory
	Theirs  *Side     `json:"theirs"`           // nil: no memory
	Size    int64     `json:"size"`             // of yours, in bytes
	Settled time.Time `json:"settled,omitzero"` // when it was settled; zero: it is open
	How     string    `json:"how,omitempty"`    // it was settled
	// Secret says that the store refuses what yours has: its session is shown it, and people.
	Secret bool `json:"secret,omitempty"`
}

// IsShownTo reports whether a session may be shown the conflict.
func (a About) IsShownTo(session string) bool { return !a.Secret || a.Session == session }

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
//
// A conflict is open until it is settled; it then lies in a directory below, is
// still read by its number, and expires as if it were open.
//
// As root, the directory has to be one that only root may change
// (safepath.ErrUntrusted). Links in it that lead elsewhere are errors.
type Store struct {
	dir  *safepath.Root
	room room
}

// New returns the conflicts kept in dir, which is made when there is one.
func New(dir string) *Store { return &Store{dir: safepath.NewRoot(dir), room: newRoom()} }

// Dir is the directory. Its other files have names that are no numbers.
func (s *Store) Dir() string { return s.dir.Path() }

// Find returns the number of a conflict of path that keeps yours, 0 when there is
// none.
func (s *Store) Find(path string, yours []byte) (int, error) {
	list, err := s.List()
	if err != nil {
		return 0, err
	}
	for _, about := range list {
		if about.Path != path || about.Size != int64(len(yours)) {
			continue
		}
		if text, err := s.Read(about.ID, YoursFile); err == nil && bytes.Equal(text, yours) {
			return about.ID, nil
		}
	}
	return 0, nil
}

// Keep keeps a conflict and returns its number; about.ID and about.Size are
// filled in. When it returns nil the conflict survives a crash of the machine.
// ErrFull: the session, or the store, has no room for it.
func (s *Store) Keep(about About, texts Texts) (int, error) {
	id, _, err := s.keep(about, texts, false)
	return id, err
}

// KeepNewest is Keep in place of the oldest conflicts of the same session, which
// are removed and returned if the session or the store has no room. Settled ones
// go first. Conflicts of other sessions are never removed: ErrFull.
func (s *Store) KeepNewest(about About, texts Texts) (id int, removed []About, err error) {
	return s.keep(about, texts, true)
}

func (s *Store) keep(about About, texts Texts, replace bool) (id int, removed []About, err error) {
	fail := func(err error) (int, []About, error) {
		return 0, removed, fmt.Errorf("keep conflict of %s: %w", about.Path, err)
	}
	root, err := s.dir.Make(0o700)
	if err != nil {
		return fail(err)
	}
	temp := durable.TempName("")
	if err := root.Mkdir(temp, 0o700); err != nil {
		return fail(err)
	}
	about.Size, about.Why = int64(len(texts.Yours)), quote.Line(about.Why)
	if err = writeTexts(root, temp, texts); err == nil {
		id, removed, err = s.enter(root, temp, about, replace)
	}
	if err != nil {
		return fail(errors.Join(err, root.RemoveAll(temp)))
	}
	return id, removed, nil
}

func writeTexts(root *os.Root, temp string, texts Texts) error {
	for name, data := range map[string][]byte{BaseFile: texts.Base, TheirsFile: texts.Theirs} {
		if data == nil {
			continue
		}
		if err := durable.WriteFile(root, filepath.Join(temp, name), data, 0o600); err != nil {
			return err
		}
	}
	return durable.WriteFile(root, filepath.Join(temp, YoursFile), texts.Yours, 0o600)
}

// enter gives a conflict whose texts are in temp its number. Making room and taking
// the number are one step under one lock: of two callers, the second one counts the
// first one's conflict. Nothing is removed before the new conflict is durable in temp.
func (s *Store) enter(root *os.Root, temp string, about About, replace bool) (id int, removed []About, err error) {
	last, err := lockLast(root)
	if err != nil {
		return 0, nil, err
	}
	defer last.Close()
	if about.ID, err = next(root, last); err != nil {
		return 0, nil, err
	}
	older, err := s.inTheWay(about, replace)
	if err != nil {
		return 0, nil, err
	}
	if err := writeAbout(root, temp, about); err != nil {
		return 0, nil, err
	}
	if removed, err = s.removeEach(older); err != nil {
		return 0, removed, err
	}
	if err := root.Rename(temp, dirOf(about.ID)); err != nil {
		return 0, removed, err
	}
	// Only for not using numbers again: the conflict itself is complete.
	_, _ = last.WriteAt([]byte(strconv.Itoa(about.ID)), 0)
	return about.ID, removed, durable.SyncDirIn(root, ".")
}

// writeAbout writes a conflict's description, with escapes for characters that
// cannot be seen: agents read it.
func writeAbout(root *os.Root, dir string, about About) error {
	text, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(root, filepath.Join(dir, AboutFile), append(quote.JSON(text), '\n'), 0o600)
}

// lastFile holds the highest number that was ever given, as far as is known. A process that
// assigns a number holds its lock.
const lastFile = "last"

// lockLast opens the last file once no other process has it; closing it gives it to the
// next one.
func lockLast(root *os.Root) (*os.File, error) {
	f, err := safepath.OpenFile(root, lastFile, os.O_RDWR|os.O_CREATE, 0o600)
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

func next(root *os.Root, last io.Reader) (int, error) {
	ids, err := allIDs(root)
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

// Rewrite replaces the text that the loser of an open conflict wrote, as durably as
// Keep, after its session has written more; secret is that of About. It makes room as KeepNewest
// does. ErrNotFound, also when the conflict is settled.
func (s *Store) Rewrite(id int, yours []byte, secret bool) (removed []About, err error) {
	root, last, about, err := s.lockOpen(id)
	if err != nil {
		return nil, err
	}
	defer last.Close()
	about.Size, about.Secret = int64(len(yours)), about.Secret || secret
	older, err := s.inTheWay(about, true)
	if err != nil {
		return nil, fmt.Errorf("conflict %d: %w", id, err)
	}
	dir := dirOf(id)
	if err := durable.WriteFile(root, filepath.Join(dir, YoursFile), yours, 0o600); err != nil {
		return nil, fmt.Errorf("conflict %d: %w", id, err)
	}
	if err := writeAbout(root, dir, about); err != nil {
		return nil, fmt.Errorf("conflict %d: %w", id, err)
	}
	s.forget(id)
	return s.removeEach(older)
}

// settledDir holds the conflicts that are settled.
const settledDir = "settled"

// dirOf is the directory of an open conflict.
func dirOf(id int) string { return strconv.Itoa(id) }

// settledDirOf is the directory of a settled conflict.
func settledDirOf(id int) string { return filepath.Join(settledDir, strconv.Itoa(id)) }

// find returns the directory of a conflict, open or settled. ErrNotFound.
func (s *Store) find(id int) (root *os.Root, dir string, err error) {
	root, err = s.dir.Open()
	if err == nil {
		for _, dir := range []string{dirOf(id), settledDirOf(id)} {
			if _, err = root.Stat(dir); err == nil {
				return root, dir, nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("conflict %d: %w", id, ErrNotFound)
	}
	return nil, "", err
}

// IDs returns the numbers of the open conflicts, in order.
func (s *Store) IDs() ([]int, error) { return s.ids(openIDs) }

// SettledIDs returns the numbers of the settled conflicts, in order.
func (s *Store) SettledIDs() ([]int, error) {
	return s.ids(func(root *os.Root) ([]int, error) { return idsIn(root, settledDir) })
}

// ids returns the numbers that in finds, none where there is no directory.
func (s *Store) ids(in func(*os.Root) ([]int, error)) ([]int, error) {
	root, err := s.dir.Open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list conflicts: %w", err)
	}
	return in(root)
}

// openIDs returns the numbers of the open conflicts, in order.
func openIDs(root *os.Root) ([]int, error) { return idsIn(root, ".") }

// allIDs returns the numbers of all conflicts, in order.
func allIDs(root *os.Root) ([]int, error) {
	open, err := openIDs(root)
	if err != nil {
		return nil, err
	}
	settled, err := idsIn(root, settledDir) // second: one that is settled meanwhile is in both
	if err != nil {
		return nil, err
	}
	ids := append(open, settled...)
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

func idsIn(root *os.Root, dir string) ([]int, error) {
	entries, err := fs.ReadDir(root.FS(), dir)
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

// List returns the open conflicts in order. One that is resolved meanwhile is
// left out.
func (s *Store) List() ([]About, error) {
	ids, err := s.IDs()
	if err != nil {
		return nil, err
	}
	return s.list(ids)
}

// ListAll is List for the open and the settled conflicts.
func (s *Store) ListAll() ([]About, error) {
	ids, err := s.ids(allIDs)
	if err != nil {
		return nil, err
	}
	return s.list(ids)
}

func (s *Store) list(ids []int) ([]About, error) {
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
func (s *Store) Read(id int, name string) (data []byte, err error) {
	err = s.at(id, func(root *os.Root, dir string) error {
		data, err = root.ReadFile(filepath.Join(dir, name))
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return append([]byte{}, data...), nil
}

// at calls do with where a conflict is kept, and once more if that fails since nothing is there: the
// conflict may be settled meanwhile, and so have moved. ErrNotFound; the error of do names the conflict.
func (s *Store) at(id int, do func(root *os.Root, dir string) error) error {
	for again := false; ; again = true {
		root, dir, err := s.find(id)
		if err != nil {
			return err
		}
		err = do(root, dir)
		switch {
		case err == nil:
			return nil
		case again || !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("conflict %d: %w", id, err)
		}
	}
}

// Settle notes that an open conflict is settled, and how, as durably as Keep.
// Of one that is settled already it changes nothing. ErrNotFound.
func (s *Store) Settle(id int, how string, at time.Time) error {
	root, last, about, err := s.lockOpen(id)
	if errors.Is(err, ErrNotFound) {
		_, _, err = s.find(id)
		return err
	}
	if err != nil {
		return err
	}
	defer last.Close()
	about.Settled, about.How = at.UTC().Truncate(time.Microsecond), how
	err = errors.Join(writeAbout(root, dirOf(id), about), root.MkdirAll(settledDir, 0o700))
	if err == nil {
		err = root.Rename(dirOf(id), settledDirOf(id))
	}
	if err == nil {
		err = errors.Join(durable.SyncDirIn(root, settledDir), durable.SyncDirIn(root, "."))
	}
	if errors.Is(err, fs.ErrNotExist) {
		if _, _, findErr := s.find(id); findErr != nil { // removed meanwhile
			return findErr
		}
	}
	if err != nil {
		return fmt.Errorf("settle conflict %d: %w", id, err)
	}
	return nil
}

// lockOpen describes an open conflict that is about to be changed. Closing the file
// lets others change conflicts, or give one a number. ErrNotFound, also when the
// conflict is settled.
func (s *Store) lockOpen(id int) (root *os.Root, last *os.File, about About, err error) {
	if root, _, err = s.find(id); err != nil {
		return nil, nil, About{}, err
	}
	if last, err = lockLast(root); err != nil {
		return nil, nil, About{}, err
	}
	if _, err = root.Stat(dirOf(id)); errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("conflict %d is settled: %w", id, ErrNotFound)
	}
	if err == nil {
		about, err = s.About(id)
	}
	if err != nil {
		return nil, nil, About{}, errors.Join(err, last.Close())
	}
	return root, last, about, nil
}
