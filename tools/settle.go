package tools

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"mneme/cas"
	"mneme/errkind"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/session"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// conflictsOf takes a call, and returns the place of a store, by its name or its path. It may
// be left out if only one can be written to. Its conflicts are those of its session.
func (m *Memory) conflictsOf(store string) (*place, *Error) {
	places, e := m.withConflicts(store)
	switch {
	case e != nil:
		return nil, e
	case len(places) > 1:
		return nil, failed(errkind.Invalid, m.opts.Texts.say(whichStore, names(places)))
	}
	return places[0], nil
}

// withConflicts takes a call, and returns the places of which a store may be one; "": all
// that can be written to.
func (m *Memory) withConflicts(store string) ([]*place, *Error) {
	if err := m.opts.Budget.Take(1, 0); err != nil {
		return nil, m.explain(err, "", false)
	}
	var writable []*place
	for _, p := range m.places {
		if p.Session != nil {
			writable = append(writable, p)
		}
	}
	if store == "" && writable != nil {
		return writable, nil
	}
	p := m.bySlug(strings.TrimPrefix(store, Root+"/"))
	switch {
	case p == nil:
		return nil, failed(errkind.NotFound, m.opts.Texts.say(noSuchStore, shown(store), names(m.places)))
	case p.Session == nil:
		return nil, failed(errkind.ReadOnly, m.opts.Texts.say(readOnly, p.top))
	}
	return []*place{p}, nil
}

// names lists the names of stores.
func names(places []*place) string {
	var all []string
	for _, p := range places {
		all = append(all, p.slug)
	}
	return list(all)
}

// KeepsConflicts reports whether the session of a store keeps texts that it has lost. If
// none does, the methods below must not be called.
func (m *Memory) KeepsConflicts() bool {
	return slices.ContainsFunc(m.places, func(p *place) bool { return p.Session != nil && p.Session.KeepsConflicts() })
}

// Conflicts returns the kept lost texts of a store that are not settled, of all sessions;
// "" means every store that can be written to. Its error is an *Error, as those of the
// following are.
func (m *Memory) Conflicts(_ context.Context, store string) ([]conflict.About, error) {
	places, e := m.withConflicts(store)
	if e != nil {
		return nil, e
	}
	var all []conflict.About
	for _, p := range places {
		of, err := p.Session.Conflicts().List(false)
		if err != nil {
			return nil, m.explain(err, p.top, false)
		}
		all = append(all, of...)
	}
	return all, nil
}

// KeptConflict is a conflict with its texts, and what is at its path now.
type KeptConflict struct {
	About   conflict.About
	Texts   conflict.Texts
	Now     *VersionInfo // nil: no file
	NowText []byte
}

// Conflict returns a conflict. The session has then read what is at its path now.
func (m *Memory) Conflict(ctx context.Context, store string, id int) (KeptConflict, error) {
	p, e := m.conflictsOf(store)
	if e != nil {
		return KeptConflict{}, e
	}
	var kept KeptConflict
	var err error
	if kept.About, kept.Texts, err = p.Session.Conflicts().Get(id); err != nil {
		return KeptConflict{}, m.noConflict(err, p, id, false)
	}
	v, now, err := p.read(ctx, kept.About.Path)
	switch {
	case err == nil:
		info := p.info(&v)
		kept.Now, kept.NowText = &info, now
	case !isNotFound(err):
		return KeptConflict{}, m.explain(err, quote.Text(join(p.top, kept.About.Path)), false)
	}
	return kept, nil
}

// Resolve writes the resolution r to the file of a conflict, and removes the conflict.
// ifVersion is the condition of a WriteQuery; "": that the newest version is the one that
// had won, or a later one that the session has read. The zero Made means that nothing had
// to be written. A repetition of the last resolution, as after a lost answer, gives the
// same answer.
func (m *Memory) Resolve(ctx context.Context, store string, id int, r session.Resolution, ifVersion string) (Made, error) {
	p, e := m.conflictsOf(store)
	if e != nil {
		return Made{}, e
	}
	asked := resolution{id: id, take: r.Take, text: cas.Sum(r.Data), ifVersion: ifVersion}
	about, _, err := p.Session.Conflicts().Get(id)
	if last := p.resolved.Load(); errors.Is(err, conflict.ErrNotFound) && last != nil && last.resolution == asked {
		return last.made, nil
	}
	if err != nil {
		return Made{}, m.noConflict(err, p, id, false)
	}
	a := &address{place: p, path: about.Path, shown: quote.Text(join(p.top, about.Path))}
	if ifVersion != "" {
		expect, err := a.expected(ctx, ifVersion)
		if err != nil {
			return Made{}, m.notResolved(err, a, id)
		}
		r.Expect = &expect
	}
	v, err := p.Session.Conflicts().Resolve(ctx, id, r)
	if err != nil {
		return Made{}, m.notResolved(err, a, id)
	}
	var made Made
	if v != (versionlog.Version{}) {
		made = p.made(&v)
	}
	p.resolved.Store(&resolvedConflict{asked, made})
	return made, nil
}

// notResolved is the error of a conflict that stays.
func (m *Memory) notResolved(err error, a *address, id int) *Error {
	t := m.opts.Texts
	head, isConflict := versionlog.ConflictAt(err, a.path)
	switch {
	case errors.Is(err, session.ErrSameLines):
		return failed(errkind.Conflict, t.say(sameLines, id))
	case isConflict:
		now := IfNone
		if head != nil {
			now = strconv.FormatUint(head.Seq, 10)
		}
		e := failed(errkind.Conflict, t.say(conflictMoved, id, a.shown, there(head), now))
		e.Retry = AfterView
		return e
	case isNotFound(err):
		return failed(errkind.NotFound, t.say(nothingToMerge, id, a.shown, IfNone))
	case errors.Is(err, conflict.ErrNotFound):
		return m.noConflict(err, a.place, id, true)
	}
	return m.explain(err, a.shown, true)
}

// Dismiss settles a conflict without a change.
func (m *Memory) Dismiss(_ context.Context, store string, id int) error {
	p, e := m.conflictsOf(store)
	if e != nil {
		return e
	}
	if err := p.Session.Conflicts().Dismiss(id, session.ByDismissing); err != nil {
		return m.noConflict(err, p, id, false)
	}
	return nil
}

func (m *Memory) noConflict(err error, p *place, id int, changes bool) *Error {
	if errors.Is(err, conflict.ErrNotFound) {
		return failed(errkind.NotFound, m.opts.Texts.say(missingConflict, id, p.top))
	}
	return m.explain(err, p.top, changes)
}

// Follow calls changed with the path of every file that a commit of a store changes, and
// with its old path if it was renamed. If a version was erased, its path is not known, and
// changed gets the path of the store. Follow ends when ctx ends or something fails, and
// returns why. It reports commits of the own session, too. began, unless it is nil, is
// called first: commits after that call are reported.
func (m *Memory) Follow(ctx context.Context, store string, began func(), changed func(path string)) error {
	p := m.bySlug(store)
	if p == nil {
		return memory.ErrNoStore
	}
	tip, err := p.Store.Tip(ctx)
	if err != nil {
		return err
	}
	if began != nil {
		began()
	}
	return p.Store.Follow(ctx, tip, func(c *versionlog.Commit) error {
		if c.HasRedacted() {
			changed(p.top)
		}
		for path := range c.Heads() {
			changed(join(p.top, path))
		}
		return nil
	})
}
