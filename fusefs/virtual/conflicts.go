package virtual

import (
	"context"
	"errors"
	"path"
	"strconv"
	"syscall"
	"time"

	"mneme/session/conflict"
)

// conflicts is .mneme/conflicts. A conflict that is settled is not listed, and can be
// looked up by its number, unless it was dismissed here: then its directory has been
// removed, as far as a program can tell.
type conflicts struct {
	place
	kept Conflicts
	gone *removals
}

func newConflicts(kept Conflicts, made time.Time) *conflicts {
	return &conflicts{
		place: place{path: path.Join(Root, "conflicts"), mode: syscall.S_IFDIR | 0o755, made: made, lasting: true},
		kept:  kept, gone: &removals{dismissed: map[int]bool{}, files: map[int]map[string]bool{}},
	}
}

func (c *conflicts) Fixed() bool { return false }

func (c *conflicts) Lookup(_ context.Context, name string) (Node, error) {
	d, err := c.lookup(name)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (c *conflicts) lookup(name string) (*conflictDir, error) {
	id, err := strconv.Atoi(name)
	if err != nil || id <= 0 || strconv.Itoa(id) != name || c.gone.isDismissed(id) {
		return nil, syscall.ENOENT
	}
	d := &conflictDir{place: c.dir(name), kept: c.kept, gone: c.gone, id: id}
	about, err := c.kept.About(id)
	if err == nil {
		d.made = about.Time
		if about.ID = id; c.kept.Own(about) {
			d.own = &about
			d.mode |= 0o200
		}
		return d, nil
	}
	_, err = c.kept.Read(id, conflict.YoursFile)
	switch {
	case errors.Is(err, conflict.ErrNotFound):
		return nil, syscall.ENOENT
	case err != nil:
		return nil, err
	}
	return d, nil // it is damaged, and what is there of it can be read
}

func (c *conflicts) List(context.Context) ([]Entry, error) {
	ids, err := c.kept.IDs()
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(ids))
	for _, id := range ids {
		entries = append(entries, Entry{strconv.Itoa(id), syscall.S_IFDIR, uint64(id)})
	}
	return entries, nil
}

// Remove dismisses a conflict.
func (c *conflicts) Remove(name string, dir bool) error {
	d, err := c.lookup(name)
	switch {
	case err != nil:
		return err
	case !dir:
		return syscall.EISDIR
	case d.own == nil:
		return ErrNotYours
	}
	if err := c.kept.Dismiss(*d.own); err != nil {
		return err
	}
	c.gone.dismiss(d.id)
	return nil
}
