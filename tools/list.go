package tools

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"mneme/errkind"
	"mneme/memory"
)

// The bounds of a list.
const (
	DefaultDepth   = 2
	MaxDepth       = 10
	DefaultEntries = 200
	MaxEntries     = 1000
)

// ListQuery is what to list.
type ListQuery struct {
	Path  string // of a directory or file; "": everything
	Depth int    // how many names deep; 0: DefaultDepth; at most MaxDepth
	After string // ListPage.Next of the page before; "": from the first
	Limit int    // of entries; 0: DefaultEntries; at most MaxEntries
}

// Entry is a file, or a directory of which no more is listed.
type Entry struct {
	Path    string // as the tool has it
	Size    int64  // in bytes; of a directory, of all files in it
	Version string // id of the newest version
	Seq     uint64
	Updated time.Time
	IsDir   bool
	Files   int // in a directory, at whatever depth
}

// ListPage is a part of a list.
type ListPage struct {
	Entries []Entry
	Next    string // where to go on; "": that was all
}

// List lists the files below a directory in the order of the paths, hidden ones, too.
func (m *Memory) List(ctx context.Context, q ListQuery) (ListPage, error) {
	under, found, err := m.toList(ctx, q)
	if err != nil {
		return ListPage{}, err
	}
	depth, limit := min(cmp.Or(q.Depth, DefaultDepth), MaxDepth), min(cmp.Or(q.Limit, DefaultEntries), MaxEntries)
	if depth < 1 || limit < 1 {
		return ListPage{}, failed(errkind.Invalid, m.opts.Texts.say(refusedRequest, errors.New("depth and limit must be at least 1")))
	}
	top := join(Root, "")
	if under.place != nil {
		top = join(under.top, under.path)
	}
	var page ListPage
	for _, one := range found {
		path := one.path()
		shown := firstNames(path, top, depth)
		last := len(page.Entries) - 1
		switch {
		case last >= 0 && page.Entries[last].IsDir && page.Entries[last].Path == shown:
		case last+1 == limit:
			if page.Next = page.Entries[last].Path; page.Entries[last].IsDir {
				page.Next += "/"
			}
			return page, nil
		default:
			page.Entries = append(page.Entries, Entry{Path: shown, IsDir: shown != path || one.isDir()})
			last++
		}
		page.Entries[last].count(one)
	}
	return page, nil
}

// count notes a file that an entry is of, or that is in the directory that it is of.
func (e *Entry) count(one located) {
	switch {
	case one.isDir():
	case e.IsDir:
		e.Size += one.head.Size()
		e.Files++
	default:
		h := one.head
		e.Size, e.Version, e.Seq, e.Updated = h.Size(), h.ID(), h.Seq(), h.Time()
	}
}

// firstNames returns the first names of a path below top: at most so many.
func firstNames(path, top string, most int) string {
	end := len(top)
	for range most {
		next := strings.IndexByte(path[min(end+1, len(path)):], '/')
		if next < 0 {
			return path
		}
		end += 1 + next
	}
	return path[:end]
}

// toList returns the address of a list and the heads that it may have. Its error is an
// *Error.
func (m *Memory) toList(ctx context.Context, q ListQuery) (*address, []located, error) {
	if err := m.opts.Budget.Take(1, 0); err != nil {
		return nil, nil, m.explain(err, "", false)
	}
	under, found, e := m.find(ctx, q.Path, q.After)
	if e != nil {
		return nil, nil, e
	}
	return under, found, nil
}

// Below returns the files that a deletion of a path would take. It costs no call.
func (m *Memory) Below(ctx context.Context, path string) ([]Entry, error) {
	_, found, e := m.find(ctx, path, "")
	if e != nil {
		return nil, e
	}
	var all []Entry
	for _, one := range found {
		if !one.isDir() {
			all = append(all, Entry{Path: one.path()})
			all[len(all)-1].count(one)
		}
	}
	return all, nil
}

// located is a memory, or a directory that was made, of a place; without a head it is the
// place, in which nothing is.
type located struct {
	*place
	head *memory.Head
}

func (l located) path() string {
	if l.head == nil {
		return l.top
	}
	return join(l.top, l.head.Path())
}

func (l located) isDir() bool { return l.head == nil || strings.HasSuffix(l.head.Path(), "/") }

// find returns everything at and below a path ("" is everything), in the order of the
// stores and of the paths in them. If after is not "", it returns only paths after that
// one. If after ends in a slash, it also skips everything in that directory.
func (m *Memory) find(ctx context.Context, path, after string) (*address, []located, *Error) {
	under, e := m.address(ctx, cmp.Or(path, Root))
	if e != nil {
		return nil, nil, e
	}
	if under.nobody {
		return nil, nil, failed(errkind.NotFound, m.opts.Texts.say(missing, under.shown))
	}
	var last *address
	if after != "" {
		if last, e = m.address(ctx, after); e != nil {
			return nil, nil, e
		}
	}
	var found []located
	for _, p := range m.places {
		if under.place != nil && under.place != p {
			continue
		}
		now, err := p.idx.sync(ctx)
		if under.place == nil && isNotFound(err) {
			continue // the store has been deleted, and the others have not
		}
		if err != nil {
			return nil, nil, m.explain(err, under.shown, false)
		}
		inPlace := now.atAndBelow(under.path)
		if len(inPlace) == 0 && under.place == nil && !isBefore(p, "/", last, false) {
			found = append(found, located{place: p})
		}
		for _, h := range inPlace {
			if !isBefore(p, h.Path(), last, strings.HasSuffix(after, "/")) {
				found = append(found, located{p, h})
			}
		}
	}
	if found == nil && last == nil && !under.isRoot() {
		return nil, nil, failed(errkind.NotFound, m.opts.Texts.say(missing, under.shown))
	}
	return under, found, nil
}

// isBefore reports whether a path of a place is not behind an address or, whole, behind what is
// in that; of nil, none is.
func isBefore(p *place, path string, last *address, whole bool) bool {
	switch {
	case last == nil || last.place == nil:
		return false
	case p != last.place:
		return p.slug < last.slug
	case whole:
		return path < strings.TrimSuffix(last.path, "/")+"0" // which follows the slash
	}
	return path <= last.path
}
