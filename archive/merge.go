package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mneme/cas"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// How much one commit of a merge takes: what every backend takes.
const (
	mergeChanges = 40
	mergeBytes   = 2 << 20
)

// merger brings what is live in an archive into a store that has a history of its own. It
// never replaces anything.
type merger struct {
	a       *Archive
	opts    *ImportOptions
	done    *Imported
	st      *memory.Store
	keep    *conflict.Store // nil: nothing is kept
	session string          // of the conflicts
	message string
	there   map[string]versionlog.Version // what was live when the merge began, by path
	batch   []memory.Change               // for memories that the store does not have
	heads   []versionlog.Version
	bytes   int64
}

// merge adds to the store of done what that has not, and keeps as conflicts what differs.
func merge(ctx context.Context, lib *memory.Library, a *Archive, opts *ImportOptions, done *Imported) error {
	st, err := lib.Open(ctx, done.Store.ID, opts.Author)
	if err != nil {
		return err
	}
	m := a.Manifest
	g := merger{a: a, opts: opts, done: done, st: st, session: fmt.Sprintf("import-%.12s", m.Root),
		message: fmt.Sprintf("import of store %s at commit %d, %.12s", m.Store.Slug, m.Seq, m.Digest)}
	if opts.Conflicts != nil {
		g.keep = opts.Conflicts(st.Info().ID)
	}
	heads, err := a.Heads(ctx)
	if err != nil {
		return err
	}
	if err := g.check(ctx, heads); err != nil {
		return err
	}
	for n, head := range heads {
		if err := g.add(ctx, head); err != nil {
			return err
		}
		opts.Progress("memories", n+1, len(heads))
	}
	return g.flush(ctx)
}

// check makes sure, before anything is written, that the store can take every content, and
// that what differs and is not kept yet has room among the conflicts.
func (g *merger) check(ctx context.Context, heads []versionlog.Version) error {
	g.there = map[string]versionlog.Version{}
	for v, err := range g.st.Tree(ctx, "/") {
		if err != nil {
			return err
		}
		g.there[v.Path] = v
	}
	differ, bytes := 0, int64(0)
	for _, head := range heads {
		conflicts, err := g.checkHead(ctx, head)
		if err != nil {
			return err
		}
		if conflicts {
			differ, bytes = differ+1, bytes+head.Size+g.there[head.Path].Size
		}
	}
	if g.keep == nil {
		return nil
	}
	if err := g.keep.HasRoom(g.session, differ, bytes); err != nil {
		return fmt.Errorf("nothing was written: %d memories differ, by %d bytes: %w: %w", differ, bytes, versionlog.ErrConflict, err)
	}
	return nil
}

// checkHead makes sure that the store can take a head of the archive, and reports whether the head becomes
// a conflict that the store does not keep yet.
func (g *merger) checkHead(ctx context.Context, head versionlog.Version) (conflicts bool, err error) {
	now, is := g.there[head.Path]
	if is && now.Digest == head.Digest {
		return false, nil
	}
	if !is {
		if err := memory.CheckNew(head.Path); err != nil {
			return false, fmt.Errorf("nothing was written: %w", err)
		}
	}
	if head.IsDir() {
		return false, nil
	}
	data, err := g.a.Content(head.Digest)
	if errors.Is(err, cas.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := g.st.Check(head.Path, data); err != nil {
		return false, fmt.Errorf("nothing was written: %w", err)
	}
	switch {
	case !is && !g.opts.Confirmed:
		if err := g.st.CheckSecrets(ctx, head.Path, data); err != nil {
			return false, fmt.Errorf("nothing was written: %w", err)
		}
	case is && g.keep != nil:
		id, err := g.keep.Find(head.Path, data)
		if err != nil && !errors.Is(err, conflict.ErrNotFound) {
			return false, err
		}
		return id == 0, nil
	}
	return false, nil
}

// add puts what is live in the archive into the batch if the store has nothing there.
func (g *merger) add(ctx context.Context, head versionlog.Version) error {
	now, is := g.there[head.Path]
	if is && now.Digest == head.Digest { // directories have none
		if !head.IsDir() {
			g.done.Unchanged++
		}
		return nil
	}
	c := memory.Change{Action: versionlog.MakeDir, Path: head.Path, Spelling: head.Spelling, Expect: versionlog.ExpectAny()}
	if !head.IsDir() {
		data, err := g.a.Content(head.Digest)
		if errors.Is(err, cas.ErrNotFound) {
			g.done.Skipped++
			return nil
		}
		if err != nil {
			return err
		}
		c.Action, c.Content, c.Digest, c.Expect = versionlog.Put, data, head.Digest, versionlog.ExpectAbsent()
	}
	if is {
		return g.one(ctx, c, &head)
	}
	if len(g.batch) == mergeChanges || g.bytes+head.Size > mergeBytes {
		if err := g.flush(ctx); err != nil {
			return err
		}
	}
	g.batch, g.heads, g.bytes = append(g.batch, c), append(g.heads, head), g.bytes+head.Size
	return nil
}

// flush commits the batch: all of it together if the store has nothing at its paths, else
// one by one.
func (g *merger) flush(ctx context.Context) error {
	batch, heads := g.batch, g.heads
	g.batch, g.heads, g.bytes = nil, nil, 0
	if len(batch) == 0 {
		return nil
	}
	err := g.commit(ctx, batch)
	if err == nil || !inTheWay(err) {
		return err
	}
	for n := range batch {
		if err := g.one(ctx, batch[n], &heads[n]); err != nil {
			return err
		}
	}
	return nil
}

func inTheWay(err error) bool {
	return errors.Is(err, versionlog.ErrConflict) || errors.Is(err, versionlog.ErrOverlap)
}

func (g *merger) commit(ctx context.Context, changes []memory.Change) error {
	c, err := g.st.Batch(ctx, changes, &memory.CommitOptions{Message: g.message, Confirmed: g.opts.Confirmed, Warn: g.opts.Warn})
	if err == nil && c.Changes() {
		g.done.Commits++
		for i := range c.Versions {
			if !c.Versions[i].IsDir() {
				g.done.Created++
			}
		}
	}
	return err
}

// one commits one change, or keeps it as a conflict.
func (g *merger) one(ctx context.Context, c memory.Change, head *versionlog.Version) error {
	for {
		err := g.commit(ctx, []memory.Change{c})
		if err == nil || !inTheWay(err) {
			return err
		}
		if errors.Is(err, versionlog.ErrOverlap) {
			if c.Action == versionlog.MakeDir {
				return nil // of which nothing would be left but its name
			}
			return g.conflict(ctx, c.Content, head, nil)
		}
		now, err := g.st.Head(ctx, head.Path)
		switch {
		case errors.Is(err, versionlog.ErrNotFound):
			continue // it went meanwhile
		case err != nil:
			return err
		case now.Digest == head.Digest:
			g.done.Unchanged++
			return nil
		}
		return g.conflict(ctx, c.Content, head, &now)
	}
}

// conflict keeps a content beside what the store has instead, once.
func (g *merger) conflict(ctx context.Context, data []byte, head, now *versionlog.Version) error {
	if g.keep == nil {
		return fmt.Errorf("%s: the store has another content: %w", quote.Name(head.Path), versionlog.ErrConflict)
	}
	id, err := g.keep.Find(head.Path, data)
	if err != nil {
		return err
	}
	if id == 0 {
		about := conflict.About{
			Store: g.st.Info().Slug, Path: head.Path, Session: g.session, Time: time.Now().UTC(),
			Why: g.message + ", which has another content", Theirs: conflict.SideOf(now),
		}
		texts := conflict.Texts{Yours: data}
		if now != nil {
			if texts.Theirs, err = g.st.Content(ctx, *now); err != nil {
				return err
			}
		}
		if id, err = g.keep.Keep(about, texts); err != nil {
			return err
		}
	}
	g.done.Conflicts = append(g.done.Conflicts, id)
	return nil
}
