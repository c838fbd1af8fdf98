package versionlog

import (
	"fmt"
	"iter"
	"strings"
)

// Rehearsal takes in the commits of a history as Import would, in memory and without a log:
// what it takes, an empty store takes. It holds the state of the history, not its commits.
// Its methods must not be called at once.
type Rehearsal struct {
	store  Store
	tip    Tip
	root   place
	newest map[string]*Version // by memory id

	erased   map[string]*Version // by id
	archived bool                // by a commit; a store may have been archived without one
}

// NewRehearsal begins with a store that has no commits.
func NewRehearsal(s Store) *Rehearsal {
	s = s.Clone()
	s.Epoch = max(s.Epoch, 1)
	return &Rehearsal{store: s, newest: map[string]*Version{}, erased: map[string]*Version{}}
}

// Before returns the store as it was before first, the first commit of its history, where s
// is its state after that history. Fields that no commit records are as they are now.
func (s Store) Before(first *Commit) Store {
	if first.IsEvent(EventCreated) {
		s = Store{ID: s.ID, Slug: s.Slug, Name: s.Name, Limits: s.Limits, CreatedAt: s.CreatedAt}
	}
	s.Epoch, s.Replica = first.Epoch, false
	if first.IsEvent(EventPromoted) && s.Epoch > 1 {
		s.Epoch--
	}
	return s.Clone()
}

// Store is the store as the commits have made it.
func (r *Rehearsal) Store() Store { return r.store.Clone() }

// Tip is the end of the history so far.
func (r *Rehearsal) Tip() Tip { return r.tip }

// Add takes in the next commit. ErrInvalid, *ConflictError, *OverlapError, ErrFenced: it
// does not follow, or does not verify; nothing has changed then. ErrArchived: one before it
// has archived the store.
func (r *Rehearsal) Add(c *Commit) error {
	if r.archived && !c.mayFollowArchived() {
		return fmt.Errorf("commit %d: %w", c.Seq, ErrArchived)
	}
	if _, err := Build(r, r.store, r.tip, c.finished(), c.Time); err != nil {
		return fmt.Errorf("commit %d: %w", c.Seq, err)
	}
	for i := range c.Versions { // what one leaves another may take
		if newest := r.newest[c.Versions[i].MemoryID]; newest != nil && newest.Live() && !newest.Redacted() {
			r.set(newest.Path, nil)
		}
	}
	for i := range c.Versions {
		v := &c.Versions[i]
		switch r.newest[v.MemoryID] = v; {
		case v.Redacted():
			r.erased[v.ID] = v
		case v.Live():
			r.set(v.Path, v)
		}
	}
	r.archived = r.archived || c.IsEvent(EventArchived)
	r.store, r.tip = r.store.After(c, true), r.tip.After(c)
	return nil
}

// Head is part of View.
func (r *Rehearsal) Head(path string) (*Version, error) {
	at := r.root.find(strings.TrimSuffix(path, "/"))
	switch {
	case at == nil:
		return nil, nil
	case isDir(path):
		return at.dir, nil
	}
	return at.memory, nil
}

// Below is part of View.
func (r *Rehearsal) Below(path string) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		if at := r.root.find(path); at != nil && (at.dir == nil || yield(*at.dir, nil)) {
			at.below(yield)
		}
	}
}

// Newest is part of View.
func (r *Rehearsal) Newest(memoryID string) (*Version, error) { return r.newest[memoryID], nil }

// Version is part of VersionView. It finds erased versions: what a redaction of the history
// names is erased in a copy of it.
func (r *Rehearsal) Version(id string) (*Version, error) {
	if v := r.erased[id]; v != nil {
		return v, nil
	}
	return nil, fmt.Errorf("%w: version %.80q was redacted, but is not erased", ErrInvalid, id)
}

// set makes a version the head of a path; nil leaves nothing there.
func (r *Rehearsal) set(path string, head *Version) {
	at := &r.root
	way := []*place{at}
	names := strings.Split(strings.TrimSuffix(path, "/")[1:], "/")
	for _, name := range names {
		next := at.names[name]
		if next == nil {
			if at.names == nil {
				at.names = map[string]*place{}
			}
			next = &place{}
			at.names[name] = next
		}
		at, way = next, append(way, next)
	}
	if isDir(path) {
		at.dir = head
	} else {
		at.memory = head
	}
	for i := len(names) - 1; i >= 0 && way[i+1].empty(); i-- {
		delete(way[i].names, names[i])
	}
}

// place is the memory or directory at a name, and everything below it.
type place struct {
	memory, dir *Version // nil: none
	names       map[string]*place
}

func (p *place) empty() bool { return p.memory == nil && p.dir == nil && len(p.names) == 0 }

// find returns the place of a path that has no slash at its end; nil when nothing is there.
func (p *place) find(path string) *place {
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if p = p.names[name]; p == nil {
			return nil
		}
	}
	return p
}

// below yields what lives below a place, and returns false once nothing more is wanted.
func (p *place) below(yield func(Version, error) bool) bool {
	for _, at := range p.names {
		for _, head := range []*Version{at.memory, at.dir} {
			if head != nil && !yield(*head, nil) {
				return false
			}
		}
		if !at.below(yield) {
			return false
		}
	}
	return true
}
