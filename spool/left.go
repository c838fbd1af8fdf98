package spool

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"mneme/internal/durable"
	"mneme/internal/safepath"
)

// Left is a spool whose mount has ended, regularly or not, and which the caller has locked:
// no other process settles it meanwhile.
type Left struct {
	root *os.Root // in which dir is
	dir  string
	lock *os.File
}

// Dead returns the spools below parent whose processes have died, each of which the caller
// must close. Spools that another process has, a living mount or one that is settling them,
// are left out.
func Dead(parent string) ([]*Left, error) {
	root, err := safepath.OpenRoot(parent)
	var names []fs.DirEntry
	if err == nil {
		names, err = fs.ReadDir(root.FS(), ".")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var dead []*Left
	for _, name := range names {
		if !strings.HasPrefix(name.Name(), dirPrefix) {
			continue
		}
		left, lockErr := lockDead(root, name.Name())
		if left != nil {
			dead = append(dead, left)
		}
		err = errors.Join(err, lockErr)
	}
	if dead == nil {
		err = errors.Join(err, root.Close())
	}
	return dead, err
}

// lockDead returns a spool that no process has, and nil for others.
func lockDead(root *os.Root, dir string) (*Left, error) {
	lock, err := root.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		_ = root.Remove(dir) // the process that settled it was killed right before this
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := durable.TryLock(lock); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, err
	}
	mine, err := lock.Stat()
	there, thereErr := root.Stat(filepath.Join(dir, lockName))
	if err != nil || thereErr != nil || !os.SameFile(mine, there) { // settled since it was opened
		return nil, lock.Close()
	}
	return &Left{root, dir, lock}, nil
}

// RemoveSettled removes settled data from the spools below parent whose processes have
// died, and returns the number of files: the files of dropped slots, bytes of an earlier
// entry behind the current one, and spools without unsettled entries. Unsettled entries
// stay for a mount; the error is that of unsettled, which is called with each of them, and
// with nil for a damaged one.
func RemoveSettled(parent string, unsettled func(*Entry) error) (n int, err error) {
	dead, err := Dead(parent)
	for _, left := range dead {
		removed, leftErr := left.removeSettled(unsettled)
		n += removed
		err = errors.Join(err, leftErr)
	}
	return n, err
}

// removeSettled is RemoveSettled for one spool, which it closes.
func (l *Left) removeSettled(unsettled func(*Entry) error) (n int, err error) {
	names, err := fs.ReadDir(l.root.FS(), l.dir)
	if err != nil {
		return 0, errors.Join(err, l.Close())
	}
	waits := false
	for _, name := range names {
		if name.Name() == lockName {
			continue
		}
		slot := filepath.Join(l.dir, name.Name())
		text, readErr := l.root.ReadFile(slot)
		e, why := decode(text)
		switch {
		case readErr != nil:
			err, waits = errors.Join(err, readErr), true
		case errors.Is(why, errDropped):
			if removeErr := l.root.Remove(slot); removeErr != nil {
				err = errors.Join(err, removeErr)
			} else {
				n++
			}
		default:
			waits = true
			err = errors.Join(err, unsettled(e))
			if why == nil && recordSize(text) < int64(len(text)) {
				err = errors.Join(err, cutOff(l.root, slot, recordSize(text)))
			}
		}
	}
	if n > 0 {
		err = errors.Join(err, durable.SyncDirIn(l.root, l.dir))
	}
	if waits || err != nil {
		return n, errors.Join(err, l.Close())
	}
	return n + 1, l.Remove()
}

// cutOff shortens a file.
func cutOff(root *os.Root, name string, size int64) error {
	f, err := root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// Rest is what is left of one file.
type Rest struct {
	root   *os.Root
	*Entry // nil when the slot is damaged: a write to it was cut off, or the disk has changed it

	slots []string // its files, oldest entry first
}

// Rests returns the unsettled entries: the newest entry of each file, in the order in which
// they were written, and last the slots that are damaged.
func (l *Left) Rests() ([]Rest, error) {
	names, err := fs.ReadDir(l.root.FS(), l.dir)
	if err != nil {
		return nil, err
	}
	var all, damaged []Rest
	for _, name := range names {
		if name.Name() == lockName {
			continue
		}
		slot := filepath.Join(l.dir, name.Name())
		text, err := l.root.ReadFile(slot)
		if errors.Is(err, fs.ErrNotExist) { // dropped meanwhile, by a request after the end
			continue
		}
		if err != nil {
			return nil, err
		}
		e, err := decode(text)
		switch {
		case err == nil:
			all = append(all, Rest{l.root, e, []string{slot}})
		case !errors.Is(err, errDropped):
			damaged = append(damaged, Rest{l.root, nil, []string{slot}})
		}
	}
	slices.SortFunc(all, func(a, b Rest) int { return cmp.Compare(a.Number, b.Number) })
	var rests []Rest
	older := map[uint64][]string{}
	for i, r := range all {
		slots := append(older[r.File], r.slots...)
		older[r.File] = slots
		if !slices.ContainsFunc(all[i+1:], func(n Rest) bool { return n.File == r.File }) {
			rests = append(rests, Rest{l.root, r.Entry, slots})
		}
	}
	return append(rests, damaged...), nil
}

// Remove forgets what is settled.
func (r *Rest) Remove() error {
	for _, slot := range r.slots { // the newest last: an older one is not the file
		if err := r.root.Remove(slot); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Remove removes the spool, of which everything is settled, and closes it.
func (l *Left) Remove() error {
	names, err := fs.ReadDir(l.root.FS(), l.dir)
	for _, name := range names { // slots that were dropped
		if name.Name() != lockName {
			err = errors.Join(err, l.root.Remove(filepath.Join(l.dir, name.Name())))
		}
	}
	if err == nil { // the lock last: without it no process settles the rest
		err = errors.Join(l.root.Remove(filepath.Join(l.dir, lockName)), l.root.Remove(l.dir))
	}
	return errors.Join(err, l.Close())
}

// Close leaves what is left to the next one who asks for dead spools.
func (l *Left) Close() error { return l.lock.Close() }

// InUse returns the entries that spools of running processes below parent hold, and of which has
// holds, of the text or the path; and how many settled ones such spools have not wiped, of whose texts
// it holds. It takes nothing from them.
func InUse(parent string, has func(text []byte) bool) (used []Entry, settled int, err error) {
	root, err := safepath.OpenRoot(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	slots, err := fs.Glob(root.FS(), dirPrefix+"*/*")
	for _, slot := range slots {
		if filepath.Base(slot) == lockName {
			continue
		}
		if left, lockErr := lockDead(root, filepath.Dir(slot)); lockErr != nil || left != nil { // RemoveSettled says what is in it
			if err = errors.Join(err, lockErr); left != nil {
				err = errors.Join(err, left.Close())
			}
			continue
		}
		file, readErr := root.ReadFile(slot)
		if readErr != nil {
			if !errors.Is(readErr, fs.ErrNotExist) {
				err = errors.Join(err, readErr)
			}
			continue
		}
		e, why := decode(file)
		switch {
		case why == nil && (has(e.Data) || has([]byte(e.Path))):
			used = append(used, *e)
		case errors.Is(why, errDropped):
			file[stateAt] = live
			if e, why := decode(file); why == nil && has(e.Data) || has(file) {
				settled++
			}
		case has(file): // behind its record, or while it is written
			settled++
		}
	}
	return used, settled, err
}
