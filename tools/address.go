package tools

import (
	"context"
	"strings"

	"mneme/internal/quote"
	"mneme/memory"
)

// address is what a path of the tool means.
type address struct {
	*place        // nil: Root of several stores, or a store that is not there
	path   string // in the store; "/" is the store itself
	shown  string // as texts have it
	nobody bool   // there is no such store
}

// isRoot reports whether a is a store, or the root of several.
func (a *address) isRoot() bool { return !a.nobody && (a.place == nil || a.path == "/") }

// address finds out what a path means.
func (m *Memory) address(ctx context.Context, path string) (*address, *Error) {
	names, odd, e := m.opts.Texts.parsePath(path)
	if e != nil {
		return nil, e
	}
	a := &address{shown: quote.Text(strings.Join(append([]string{Root}, names...), "/")), path: "/"}
	switch {
	case len(m.places) == 1:
		a.place = m.places[0]
	case len(names) > 0:
		if a.place = m.bySlug(names[0]); a.place == nil && odd > 0 {
			return nil, m.opts.Texts.escape(path)
		} else if a.place == nil {
			a.nobody = true
			return a, nil
		}
		names, odd = names[1:], odd-1
	}
	if len(names) == 0 {
		return a, nil
	}
	if odd > 0 {
		if e := m.findOdd(ctx, a, names, odd, path); e != nil {
			return nil, e
		}
	}
	a.path = "/" + strings.Join(names, "/")
	if err := memory.CheckPath(a.path); err != nil {
		return nil, m.opts.Texts.refusePath(path, err)
	}
	return a, nil
}

// findOdd replaces the first names of a path, the last of which is odd, by those of an
// existing memory or directory: the names as they are, or with escapes, as a listing shows
// them.
func (m *Memory) findOdd(ctx context.Context, a *address, names []string, odd int, path string) *Error {
	for _, form := range [][]string{names[:odd], unshown(names[:odd])} {
		there := false
		if at := "/" + strings.Join(form, "/"); form != nil && memory.CheckPath(at) == nil {
			var err error
			if there, err = (&address{place: a.place, path: at}).isThere(ctx); err != nil {
				return m.explain(err, a.shown, false)
			}
		}
		if there {
			copy(names, form)
			return nil
		}
	}
	return m.opts.Texts.escape(path)
}

// isThere reports whether a memory or a directory is at an address.
func (a *address) isThere(ctx context.Context) (bool, error) {
	for _, err := range a.Store.Tree(ctx, a.path) {
		return err == nil, err
	}
	return false, nil
}
