package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// ErrSameLines says that two texts cannot be merged, since both have changed the same
// lines. It is a versionlog.ErrConflict, under errors.Is.
var ErrSameLines = fmt.Errorf("both changed the same lines: %w", versionlog.ErrConflict)

// Conflicts are what is kept of the store's lost writes, of all sessions. A conflict is settled
// when its session writes to its path again, since the session has then decided on the content of
// the memory, or when it is dismissed. It stays on disk until it expires.
//
// Its methods may be called only where Options.Conflicts says where they are kept.
type Conflicts struct {
	s   *Session
	all bool // those that only their own sessions are shown, too
}

// Conflicts returns the conflicts of the store that the session may be shown.
func (s *Session) Conflicts() *Conflicts { return &Conflicts{s: s} }

// ConflictsForPeople returns all conflicts of the store.
func (s *Session) ConflictsForPeople() *Conflicts { return &Conflicts{s, true} }

func (c *Conflicts) shows(about conflict.About) bool { return c.all || about.IsShownTo(c.s.opts.ID) }

// KeepsConflicts reports whether what is lost is kept: Options.Conflicts says where.
func (s *Session) KeepsConflicts() bool { return s.opts.Conflicts != nil }

func (c *Conflicts) kept() *conflict.Store { return c.s.opts.Conflicts }

// List returns the conflicts that are not settled, in order; all: the settled ones, too.
// Those that have expired are removed.
func (c *Conflicts) List(all bool) ([]conflict.About, error) {
	if err := c.kept().Expire(c.s.now()); err != nil {
		return nil, err
	}
	list := c.kept().List
	if all {
		list = c.kept().ListAll
	}
	abouts, err := list()
	return slices.DeleteFunc(abouts, func(about conflict.About) bool { return !c.shows(about) }), err
}

// Get returns a conflict and its texts. conflict.ErrNotFound.
func (c *Conflicts) Get(id int) (about conflict.About, texts conflict.Texts, err error) {
	if about, err = c.kept().About(id); err != nil {
		return about, texts, err
	}
	if !c.shows(about) {
		return conflict.About{}, texts, fmt.Errorf("conflict %d: %w", id, conflict.ErrNotFound)
	}
	for name, data := range map[string]*[]byte{
		conflict.BaseFile: &texts.Base, conflict.TheirsFile: &texts.Theirs, conflict.YoursFile: &texts.Yours,
	} {
		if *data, err = c.kept().Read(id, name); err != nil {
			return about, texts, err
		}
	}
	return about, texts, nil
}

// Take says which text becomes the memory of a conflict.
type Take int

const (
	Theirs Take = iota // what is there: nothing is written
	Yours              // what was kept
	Merged             // what is there, and what was kept, by lines
	Given              // Resolution.Data
)

func (t Take) String() string { return []string{"theirs", "yours", "merge", "data"}[t] }

// Resolution is how a conflict ends.
type Resolution struct {
	Take Take
	Data []byte // of Given
	// Expect is what must be there; nil: the version that had won, or a later one that this
	// session has read. Merged replaces what it has merged with.
	Expect  *versionlog.Expectation
	Message string // for people; "": which conflict was resolved, and how
	// Confirmed says that a person means what the store's guard holds back else.
	Confirmed bool
}

// Resolve makes the memory what r says, forgets the conflict, and returns the version that
// holds the content then; the zero Version where nothing was to be written.
// versionlog.ErrConflict when what is there is not what was expected, ErrSameLines, and a
// *HeldError; the conflict then stays.
func (c *Conflicts) Resolve(ctx context.Context, id int, r Resolution) (versionlog.Version, error) {
	about, texts, err := c.Get(id)
	if err != nil {
		return versionlog.Version{}, err
	}
	var v versionlog.Version
	if r.Take != Theirs {
		if v, err = c.write(ctx, about, texts, r); err != nil {
			return v, err
		}
	}
	if err := c.kept().Remove(id); err != nil {
		return v, err
	}
	c.s.settled(about.Path, id)
	return v, nil
}

func (c *Conflicts) write(ctx context.Context, about conflict.About, texts conflict.Texts, r Resolution) (versionlog.Version, error) {
	data, expect := r.Data, versionlog.ExpectAbsent()
	won := uint64(0)
	if about.Theirs != nil {
		expect, won = versionlog.ExpectVersion(about.Theirs.Version), about.Theirs.Seq
	}
	if read := c.s.known.Of(about.Path).Head(); read != nil && read.Seq() > won {
		expect = versionlog.ExpectVersion(read.ID())
	}
	if r.Expect != nil {
		expect = *r.Expect
	}
	switch r.Take {
	case Yours:
		data = texts.Yours
	case Merged:
		head, current, err := c.s.store.Read(ctx, about.Path)
		if err != nil {
			return versionlog.Version{}, err
		}
		merged, ok := memory.Merge(texts.Base, current, texts.Yours)
		if !ok {
			return versionlog.Version{}, fmt.Errorf("conflict %d: %w", about.ID, ErrSameLines)
		}
		data, expect = merged, versionlog.ExpectVersion(head.ID)
	}
	message := r.Message
	if message == "" {
		message = fmt.Sprintf("resolves conflict %d, taking %s", about.ID, r.Take)
	}
	opts := &WriteOptions{Expect: &expect, Message: message, Confirmed: r.Confirmed}
	if r.Take == Yours {
		opts.kept = about.ID
	}
	return c.s.Write(ctx, about.Path, data, opts)
}

// Keep keeps a conflict, of whatever session, and returns it. The session's oldest conflict makes
// room for it, which the journal says in one line.
func (c *Conflicts) Keep(ctx context.Context, about conflict.About, texts conflict.Texts) (id int, err error) {
	return c.s.keepConflict(ctx, about, texts)
}

// Dismiss settles a conflict without a change; how says by whom. conflict.ErrNotFound when
// it is gone; then it is settled, too.
func (c *Conflicts) Dismiss(id int, how string) error {
	about, err := c.kept().About(id)
	if err != nil {
		about.Path = c.Own()[id]
	} else if !c.shows(about) {
		return fmt.Errorf("conflict %d: %w", id, conflict.ErrNotFound)
	}
	err = c.kept().Settle(id, how, c.s.now())
	if err != nil && !errors.Is(err, conflict.ErrNotFound) {
		return err
	}
	c.s.settled(about.Path, id)
	return err
}

// Own returns the conflicts of this session that are not settled, with their paths.
func (c *Conflicts) Own() map[int]string {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	paths := map[int]string{}
	for path, ids := range c.s.unsettled {
		for _, id := range ids {
			paths[id] = path
		}
	}
	return paths
}

// IsOwn reports whether a conflict is one of Own.
func (c *Conflicts) IsOwn(id int) bool { return c.s.isUnsettled(id) }

// AdoptOne makes a conflict one of this session, which has been kept for it.
func (c *Conflicts) AdoptOne(path string, id int) { c.s.opened(path, id) }

// Adopt makes the conflicts that this session's id has left from before a time, and that
// are not settled, those of the session.
func (c *Conflicts) Adopt(before time.Time) error {
	list, err := c.kept().List()
	if err != nil {
		return err
	}
	for _, about := range list {
		if about.Session == c.s.opts.ID && about.Time.Before(before) {
			c.s.opened(about.Path, about.ID)
		}
	}
	return nil
}
