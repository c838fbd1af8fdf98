package tools

import (
	"context"
	"errors"
	"strings"

	"mneme/errkind"
	"mneme/session"
	"mneme/versionlog"
)

// create makes a file, with the directories above it.
func (m *Memory) create(ctx context.Context, r *request) (Result, error) {
	a, err := m.toMake(ctx, r.path)
	if err != nil {
		return Result{}, err
	}
	opts := m.writeOptions(a.place, r.command, &r.told)
	if !m.opts.Overwrite {
		absent := versionlog.ExpectAbsent()
		opts.Expect, opts.Swap = &absent, true
	}
	v, err := a.Session.Write(ctx, a.path, []byte(r.fileText.Reveal()), opts)
	if err != nil {
		return Result{}, m.notMade(err, a, exists)
	}
	return Result{Text: m.opts.Texts.say(created, a.shown), Made: []Made{a.made(&v)}}, nil
}

// toMake returns the address of a file to create.
func (m *Memory) toMake(ctx context.Context, path string) (*address, error) {
	a, e := m.address(ctx, path)
	switch {
	case e != nil:
		return nil, e
	case a.nobody:
		return nil, failed(errkind.NotFound, m.opts.Texts.say(noStore, a.shown, m.storePaths()))
	case a.isRoot():
		return nil, failed(errkind.Exists, m.opts.Texts.say(exists, a.shown))
	case a.Session == nil:
		return nil, failed(errkind.ReadOnly, m.opts.Texts.say(readOnly, a.shown))
	}
	return a, nil
}

func (m *Memory) storePaths() string {
	paths := make([]string, len(m.places))
	for i, p := range m.places {
		paths[i] = p.top
	}
	return list(paths)
}

// notMade is the error of a file that could not be put at a path: taken is the text if
// something is at that path.
func (m *Memory) notMade(err error, a *address, taken text) error {
	var overlap *versionlog.OverlapError
	var conflict *versionlog.ConflictError
	switch {
	case errors.As(err, &overlap) && strings.HasPrefix(a.path, overlap.With.Path+"/") && overlap.With.Path != "":
		return failed(errkind.Overlap, m.opts.Texts.say(belowFile, shown(join(a.top, overlap.With.Path))))
	case errors.As(err, &overlap), errors.As(err, &conflict):
		return failed(errkind.Exists, m.opts.Texts.say(taken, a.shown))
	}
	return m.explain(err, a.shown, true)
}

// errOtherFiles says that a directory has files that are not among those agreed to be
// deleted.
var errOtherFiles = errkind.New(errkind.Conflict, "the directory has other files")

// remove deletes a file, or a directory with all that is in it.
func (m *Memory) remove(ctx context.Context, r *request) (Result, error) {
	t := m.opts.Texts
	a, e := m.address(ctx, r.path)
	switch {
	case e != nil:
		return Result{}, e
	case a.nobody:
		return Result{}, failed(errkind.NotFound, t.say(missingToMove, a.shown))
	case a.isRoot():
		return Result{}, failed(errkind.Invalid, t.say(deleteRoot, a.shown))
	case a.Session == nil:
		return Result{}, failed(errkind.ReadOnly, t.say(readOnly, a.shown))
	}
	opts := m.writeOptions(a.place, r.command, &r.told)
	if r.agreed != nil {
		opts.Admit = func(v *versionlog.Version) error {
			if r.agreed[v.ID] {
				return nil
			}
			return errOtherFiles
		}
	}
	versions, err := a.removeAll(ctx, opts)
	switch {
	case isNotFound(err):
		return Result{}, failed(errkind.NotFound, t.say(missingToMove, a.shown))
	case errors.Is(err, errOtherFiles):
		return Result{}, &Error{Kind: errkind.Conflict, Retry: AfterView, text: t.say(otherFiles, a.shown)}
	case err != nil:
		return Result{}, m.explain(err, a.shown, true)
	}
	return Result{Text: t.say(deleted, a.shown), Made: a.madeAll(versions)}, nil
}

// madeAll says, for a result, which versions of memories were made.
func (p *place) madeAll(versions []versionlog.Version) []Made {
	var all []Made
	for i := range versions {
		if !versions[i].IsDir() {
			all = append(all, p.made(&versions[i]))
		}
	}
	return all
}

// moveTries is how often a rename is tried while other sessions change the moved files.
const moveTries = 3

// rename moves a file or directory to a path at which nothing is.
func (m *Memory) rename(ctx context.Context, r *request) (Result, error) {
	t := m.opts.Texts
	from, to, err := m.toRename(ctx, r)
	if err != nil {
		return Result{}, err
	}
	for try := 1; ; try++ {
		c, err := from.Session.Rename(ctx, from.path, to.path, m.writeOptions(from.place, r.command, &r.told))
		switch {
		case err == nil:
			return Result{Text: t.say(renamed, from.shown, to.shown), Made: from.madeAll(c.Versions)}, nil
		case isNotFound(err):
			return Result{}, failed(errkind.NotFound, t.say(missingToMove, from.shown))
		case errors.Is(err, versionlog.ErrConflict) && !isTaken(err, to.path) && try < moveTries:
			continue
		case errors.Is(err, versionlog.ErrConflict) && !isTaken(err, to.path):
			return Result{}, m.explain(err, from.shown, true)
		}
		return Result{}, m.notMade(err, to, targetExists)
	}
}

// isTaken reports whether a rename has failed since something is at or below its new path.
func isTaken(err error, path string) bool {
	var conflict *versionlog.ConflictError
	if !errors.As(err, &conflict) {
		return false
	}
	for _, c := range conflict.Conflicts {
		if c.Path == path || strings.HasPrefix(c.Path, path+"/") {
			return true
		}
	}
	return false
}

// toRename returns where a rename leads from and to, as far as it can be told beforehand
// that it may be made.
func (m *Memory) toRename(ctx context.Context, r *request) (from, to *address, err error) {
	t := m.opts.Texts
	from, e := m.address(ctx, r.oldPath)
	if e != nil {
		return nil, nil, e
	}
	if to, e = m.address(ctx, r.newPath); e != nil {
		return nil, nil, e
	}
	switch {
	case from.nobody:
		return nil, nil, failed(errkind.NotFound, t.say(missingToMove, from.shown))
	case from.isRoot():
		return nil, nil, failed(errkind.Invalid, t.say(renameRoot, from.shown))
	case from.Session == nil:
		return nil, nil, failed(errkind.ReadOnly, t.say(readOnly, from.shown))
	}
	there, err := from.isThere(ctx)
	switch {
	case err != nil:
		return nil, nil, m.explain(err, from.shown, false)
	case !there:
		return nil, nil, failed(errkind.NotFound, t.say(missingToMove, from.shown))
	case to.nobody:
		return nil, nil, failed(errkind.NotFound, t.say(noStore, to.shown, m.storePaths()))
	case to.isRoot():
		return nil, nil, failed(errkind.Exists, t.say(targetExists, to.shown))
	case to.place != from.place:
		return nil, nil, failed(errkind.Invalid, t.say(otherStore, from.shown, to.shown))
	case strings.HasPrefix(to.path, from.path+"/"):
		return nil, nil, failed(errkind.Invalid, t.say(intoItself, to.shown, from.shown))
	}
	if there, err = to.isThere(ctx); err != nil {
		return nil, nil, m.explain(err, to.shown, false)
	}
	if there {
		return nil, nil, failed(errkind.Exists, t.say(targetExists, to.shown))
	}
	return from, to, nil
}

// removeAll deletes everything at an address, and returns the versions of the deletions.
func (a *address) removeAll(ctx context.Context, opts *session.WriteOptions) ([]versionlog.Version, error) {
	v, err := a.Session.Remove(ctx, a.path, opts)
	switch {
	case err == nil:
		return []versionlog.Version{v}, nil
	case !isNotFound(err):
		return nil, err
	}
	c, err := a.Session.RemoveTree(ctx, a.path, opts)
	if err != nil {
		return nil, err
	}
	return c.Versions, nil
}
