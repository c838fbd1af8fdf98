package archive

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"mneme/cas"
	"mneme/internal/plural"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// Import imports an archive into a library. No mode loses anything that the library has. The same
// call continues an import that was interrupted, by the mark that it has left; until then the store
// has a beginning of the history, or some of the memories. Imported has the work done before an
// error, unless it is nil.
//
// Errors: ErrTaken, ErrBeginning, ErrAhead, ErrInUse, ErrIncomplete, versionlog.ErrNotFound (Merge),
// those of versionlog.Import and memory.Store.Batch, and those of the media.
func Import(ctx context.Context, lib *memory.Library, a *Archive, opts *ImportOptions) (*Imported, error) {
	i := importer{lib: lib, a: a, opts: *opts, marks: marks(opts.Marks)}
	if i.opts.Mode == "" {
		i.opts.Mode = New
	}
	if i.opts.Slug == "" {
		i.opts.Slug = a.Manifest.Store.Slug
	}
	if i.opts.Progress == nil {
		i.opts.Progress = func(string, int, int) {}
	}
	if i.opts.Workers <= 0 {
		i.opts.Workers = 16
	}
	if n := len(a.Manifest.Lost); n > 0 && !opts.KeepGoing {
		return nil, fmt.Errorf("%w: it lacks %s that the store had lost when it was exported, the first of them %.12s", ErrIncomplete, plural.Of(n, "content"), a.Manifest.Lost[0])
	}
	if err := i.run(ctx); err != nil {
		return &i.done, fmt.Errorf("import into store %s: %w", i.opts.Slug, err)
	}
	return &i.done, nil
}

// importer is one run of Import.
type importer struct {
	lib  *memory.Library
	a    *Archive
	opts ImportOptions
	done Imported

	marks marks
}

func (i *importer) run(ctx context.Context) error {
	there, err := i.there(ctx)
	if err != nil {
		return err
	}
	if i.opts.Mode == Merge {
		if there == nil {
			return versionlog.ErrNotFound
		}
		i.done.Store = *there
		return i.mergeInto(ctx)
	}
	goesOn := false
	if there != nil {
		if goesOn, err = i.goesOn(ctx, there); err != nil {
			return err
		}
	}
	if err := i.check(ctx); err != nil {
		return err
	}
	switch {
	case goesOn:
		i.done.Store = *there
	case there != nil && i.opts.Mode == New:
		return fmt.Errorf("%w: %s, %s", ErrTaken, there.Slug, there.ID)
	case there != nil:
		err = i.remove(ctx, there)
	}
	if err == nil && !goesOn {
		err = i.create(ctx)
	}
	if err != nil {
		return err
	}
	fill := i.goOn
	if i.a.Manifest.Kind == Heads {
		fill = i.mergeInto
	}
	if err := fill(ctx); err != nil {
		return err
	}
	return i.marks.clear(i.done.Store.ID)
}

// goesOn reports whether an import of the archive goes on in a store that is there: where one
// was interrupted, where all is there already, and, in place of it, where a beginning is.
// ErrBeginning, ErrAhead.
func (i *importer) goesOn(ctx context.Context, there *versionlog.Store) (bool, error) {
	begun, err := i.marks.has(there.ID, i.a.Manifest)
	if err != nil || i.a.Manifest.Kind == Heads {
		return begun, err
	}
	known, tip, err := i.isBeginning(ctx, there)
	if err == nil && known && !begun && i.opts.Mode == New && tip < i.a.Manifest.Seq {
		err = fmt.Errorf("%w: %s, %s is at commit %d of %d, and no import that was interrupted here has left it so", ErrBeginning, there.Slug, there.ID, tip, i.a.Manifest.Seq)
	}
	return known, err
}

// there returns the store whose place the import takes; nil when there is none.
func (i *importer) there(ctx context.Context) (*versionlog.Store, error) {
	if i.a.Manifest.Kind == History && i.opts.Mode != Merge {
		s, err := i.lib.FindStore(ctx, i.a.Manifest.Store.ID)
		if err == nil && s.Slug != i.opts.Slug {
			return nil, fmt.Errorf("%w: the store of the archive is here, as %s", ErrTaken, s.Slug)
		}
		if err == nil || !errors.Is(err, versionlog.ErrNotFound) {
			return &s, err
		}
	}
	s, err := i.lib.FindStore(ctx, i.opts.Slug)
	if errors.Is(err, versionlog.ErrNotFound) || err == nil && s.Slug != i.opts.Slug && i.opts.Mode != Merge { // it is called so only
		return nil, nil
	}
	return &s, err
}

// isBeginning reports whether the history of a store is a beginning of the archive's, and with
// which commit it ends. ErrAhead.
func (i *importer) isBeginning(ctx context.Context, s *versionlog.Store) (known bool, at uint64, err error) {
	m := i.a.Manifest
	if s.ID != m.Store.ID {
		return false, 0, nil
	}
	st, err := i.lib.Open(ctx, s.ID, nil)
	if err != nil {
		return false, 0, err
	}
	tip, err := st.Tip(ctx)
	switch {
	case err != nil:
		return false, 0, err
	case tip.Seq <= m.Seq:
		digest, err := digestOf(i.a.Commits(ctx, max(tip.Seq, 1)-1), tip.Seq)
		return digest == tip.Digest, tip.Seq, err
	}
	digest, err := digestOf(st.Commits(ctx, max(m.Seq, 1)-1), m.Seq)
	if err == nil && digest == m.Digest {
		err = fmt.Errorf("%w: it is at commit %d, and the archive at commit %d", ErrAhead, tip.Seq, m.Seq)
	}
	return false, tip.Seq, err
}

// check makes sure, before anything is changed, that the library can hold each commit, and
// that a new store takes each content.
func (i *importer) check(ctx context.Context) error {
	if i.a.Manifest.Kind == Heads && !i.opts.Confirmed {
		for _, head := range i.a.heads {
			data, err := i.a.Content(head.Digest)
			if head.IsDir() || errors.Is(err, cas.ErrNotFound) {
				continue
			}
			if err == nil {
				err = memory.CheckSecretsOf(i.a.Manifest.Store.Policy, head.Path, data)
			}
			if err != nil {
				return err
			}
		}
	}
	for c, err := range i.a.Commits(ctx, 0) {
		if err == nil {
			err = i.lib.CheckImport(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// digestOf returns the digest of the commit of a number, which is the first of some commits;
// that of 0 is zero.
func digestOf(commits iter.Seq2[*versionlog.Commit, error], seq uint64) (versionlog.Digest, error) {
	for c, err := range commits {
		if err != nil || seq == 0 {
			return versionlog.Digest{}, err
		}
		return c.Digest, nil
	}
	return versionlog.Digest{}, nil
}

// remove makes room for the archive's store, once all that was there is kept.
func (i *importer) remove(ctx context.Context, s *versionlog.Store) error {
	if s.ArchivedAt.IsZero() {
		return fmt.Errorf("%w: %s still takes commits, which could be lost between its copy and its end", ErrInUse, s.Slug)
	}
	if i.opts.Keep == nil {
		return fmt.Errorf("%w: %s, %s", ErrTaken, s.Slug, s.ID)
	}
	kept, err := i.opts.Keep(ctx, *s)
	if err != nil {
		return err
	}
	st, err := i.lib.Open(ctx, s.ID, nil)
	if err != nil {
		return err
	}
	if tip, err := st.Tip(ctx); err != nil || tip.Seq != kept.Seq || tip.Digest != kept.Digest {
		return errors.Join(err, fmt.Errorf("%w: it was at commit %d when it was kept, and is at commit %d", ErrInUse, kept.Seq, tip.Seq))
	}
	i.done.Replaced = true
	if err := i.lib.DeleteStore(ctx, s.ID); err != nil {
		return err
	}
	return errors.Join(i.removeSettled(s.ID), i.marks.clear(s.ID))
}

// removeSettled removes the settled conflicts of a store that is replaced. Of open ones there are
// none, or Keep knows of them.
func (i *importer) removeSettled(id string) error {
	if i.opts.Conflicts == nil {
		return nil
	}
	kept := i.opts.Conflicts(id)
	ids, err := kept.SettledIDs()
	if err != nil {
		return err
	}
	for _, n := range ids {
		if err := kept.Remove(n); err != nil && !errors.Is(err, conflict.ErrNotFound) {
			return err
		}
	}
	return nil
}

// create makes the store of the archive, without its history.
func (i *importer) create(ctx context.Context) (err error) {
	m := i.a.Manifest
	if m.Kind == Heads {
		i.done.Store, err = i.lib.CreateStore(ctx, i.opts.Slug, &memory.StoreOptions{
			Description: m.Store.Description, MaxMemoryBytes: m.Store.Limits.MaxMemoryBytes, Content: m.Store.Limits.Content,
			Quota: m.Store.Quota, Policy: m.Store.Policy, Metadata: m.Store.Metadata, Actor: i.opts.Author.Actor,
		})
		if err != nil {
			return err
		}
		return i.marks.set(i.done.Store.ID, m)
	}
	s := m.Store
	s.Slug = i.opts.Slug
	for c, err := range i.a.Commits(ctx, 0) {
		if err != nil {
			return err
		}
		s = s.Before(c)
		break
	}
	i.done.Store = s
	if err := i.marks.set(s.ID, m); err != nil {
		return err
	}
	return i.lib.Adopt(ctx, s)
}

// goOn brings the history of the archive into its store, behind what that has of it.
func (i *importer) goOn(ctx context.Context) error {
	st, err := i.lib.Open(ctx, i.done.Store.ID, nil)
	if err != nil {
		return err
	}
	tip, err := st.Tip(ctx)
	if err != nil {
		return err
	}
	all := len(i.a.blobs)
	contents := func(yield func([]byte, error) bool) {
		for data, err := range i.a.Contents(ctx) {
			if !yield(data, err) {
				return
			}
			i.done.Contents++
			i.opts.Progress("contents", i.done.Contents, all)
		}
	}
	if err := i.lib.ImportContents(ctx, i.done.Store.ID, contents, i.opts.Workers); err != nil {
		return err
	}
	commits := func(yield func(*versionlog.Commit, error) bool) {
		for c, err := range i.a.Commits(ctx, tip.Seq) {
			if !yield(c, err) {
				return
			}
			if err == nil { // it is in
				i.done.Commits++
				i.opts.Progress("commits", int(c.Seq), int(i.a.Manifest.Seq))
			}
		}
	}
	if err := i.lib.ImportHistory(ctx, i.done.Store.ID, commits); err != nil {
		return err
	}
	i.done.Store, err = i.lib.FindStore(ctx, i.done.Store.ID)
	return err
}

// mergeInto brings what is live at the end of the archive into a store.
func (i *importer) mergeInto(ctx context.Context) (err error) {
	if err := merge(ctx, i.lib, i.a, &i.opts, &i.done); err != nil {
		return err
	}
	i.done.Store, err = i.lib.FindStore(ctx, i.done.Store.ID)
	return err
}
