package virtual

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// These constants bound the data of the past that are kept, for all programs together.
const (
	keptStates = 4       // each of which a remote log may have in memory
	keptNames  = 1 << 15 // in directories, of some 300 bytes each
)

// past reads a store's past. Nodes ask it each time for the data that it has read, so that they
// are small, however many of them the kernel knows.
type past struct {
	store  *memory.Store
	states *kept[uint64, versionlog.State]
	dirs   *kept[pastPlace, *listing]
	times  *kept[uint64, time.Time]
}

// pastPlace is a directory of the store after a commit.
type pastPlace struct {
	seq uint64
	dir string // "/" is the root
}

func newPast(st *memory.Store) *past {
	return &past{
		store:  st,
		states: newKept[uint64](keptStates, func(versionlog.State) int { return 1 }),
		dirs:   newKept[pastPlace](keptNames, func(l *listing) int { return len(l.entries) + 1 }),
		times:  newKept[uint64](keptNames/64, func(time.Time) int { return 1 }),
	}
}

// forget drops what was read, and what is being read.
func (p *past) forget() {
	p.states.clear()
	p.dirs.clear()
}

// at returns the store after a commit.
func (p *past) at(ctx context.Context, seq uint64) (versionlog.State, error) {
	return p.states.get(ctx, seq, func(ctx context.Context) (versionlog.State, error) { return p.store.At(ctx, seq) })
}

// timeOf returns when a commit was made; 0 is when the store was. versionlog.ErrNotFound:
// there is no such commit.
func (p *past) timeOf(ctx context.Context, seq uint64) (time.Time, error) {
	if seq == 0 {
		return p.store.Info().CreatedAt, nil
	}
	return p.times.get(ctx, seq, func(ctx context.Context) (time.Time, error) {
		c, err := p.store.Commit(ctx, seq)
		if err != nil {
			return time.Time{}, err
		}
		return c.Time, nil
	})
}

// list returns what was in a directory.
func (p *past) list(ctx context.Context, at pastPlace) (*listing, error) {
	return p.dirs.get(ctx, at, func(ctx context.Context) (*listing, error) {
		state, err := p.at(ctx, at.seq)
		if err != nil {
			return nil, err
		}
		return readListing(ctx, state, at.dir)
	})
}

// find returns the memory of a path, nil if that is a directory. syscall.ENOENT.
func (p *past) find(ctx context.Context, at pastPlace, name string) (*memory.Head, error) {
	if l, ok := p.dirs.peek(at); ok {
		return l.find(name)
	}
	state, err := p.at(ctx, at.seq)
	if err != nil {
		return nil, err
	}
	wanted := path.Join(at.dir, name)
	for _, path := range []string{wanted, wanted + "/"} {
		v, err := state.Head(ctx, path)
		switch {
		case err == nil && v.IsDir():
			return nil, nil
		case err == nil:
			return memory.NewHead(&v), nil
		case !errors.Is(err, versionlog.ErrNotFound):
			return nil, err
		}
	}
	for _, err := range state.Heads(ctx, wanted, "") { // of a directory that no commit made
		return nil, err
	}
	return nil, syscall.ENOENT
}

// listing is what was in a directory, in the order of the names.
type listing struct {
	entries []Entry // as they were spelled
	names   []string
	heads   []*memory.Head // nil for a directory
}

// readListing reads what was in a directory.
func readListing(ctx context.Context, state versionlog.State, dir string) (*listing, error) {
	type child struct {
		name, spelled string
		head          *memory.Head
	}
	var children []child
	above := strings.TrimSuffix(dir, "/") + "/"
	for v, err := range state.Children(ctx, dir) {
		if err != nil {
			return nil, err
		}
		name, _, isDir := strings.Cut(v.Path[len(above):], "/")
		c := child{name: name, spelled: name}
		if v.Spelling != "" {
			c.spelled = strings.Split(memory.Spelled(v.Path, v.Spelling), "/")[strings.Count(above, "/")]
		}
		if !isDir {
			c.head = memory.NewHead(&v)
		}
		children = append(children, c)
	}
	slices.SortFunc(children, func(a, b child) int { return strings.Compare(a.name, b.name) })
	l := &listing{}
	for i, c := range children {
		mode := uint32(syscall.S_IFDIR)
		if c.head != nil {
			mode = syscall.S_IFREG
		}
		l.entries = append(l.entries, Entry{c.spelled, mode, uint64(i) + 1})
		l.names, l.heads = append(l.names, c.name), append(l.heads, c.head)
	}
	return l, nil
}

// find returns the memory of a name, nil if that is a directory's. syscall.ENOENT.
func (l *listing) find(name string) (*memory.Head, error) {
	i, found := slices.BinarySearch(l.names, name)
	if !found {
		return nil, syscall.ENOENT
	}
	return l.heads[i], nil
}

// pastDir is a directory of the store as it was after a commit, whose time it has.
type pastDir struct {
	place
	past *past
	seq  uint64
	of   string // its path in the store
}

func (d *pastDir) Fixed() bool { return true }

func (d *pastDir) Lookup(ctx context.Context, name string) (Node, error) {
	head, err := d.past.find(ctx, pastPlace{d.seq, d.of}, name)
	switch {
	case err != nil:
		return nil, err
	case head != nil:
		return newPastFile(d.past, d.file(name), head), nil
	}
	return d.sub(name), nil
}

// sub is part of assuming.
func (d *pastDir) sub(name string) Dir {
	sub := &pastDir{place: d.dir(name).copied(), past: d.past, seq: d.seq, of: path.Join(d.of, name)}
	sub.lasting = true
	return sub
}

func (d *pastDir) List(ctx context.Context) ([]Entry, error) {
	l, err := d.past.list(ctx, pastPlace{d.seq, d.of})
	if err != nil {
		return nil, err
	}
	return l.entries, nil
}

func (d *pastDir) Remove(string, bool) error { return syscall.EROFS }

// pastFile is a version of a memory.
type pastFile struct {
	place
	past *past
	head *memory.Head
}

func newPastFile(p *past, at place, head *memory.Head) *pastFile {
	f := &pastFile{place: at.copied(), past: p, head: head}
	f.made, f.lasting = head.Time(), true
	if made, ok := head.MemoryTime(); ok {
		f.made = made
	}
	return f
}

func (f *pastFile) Constant() bool           { return true }
func (f *pastFile) Stat() (int64, time.Time) { return f.head.Size(), f.head.Time() }

func (f *pastFile) Text(ctx context.Context) ([]byte, error) {
	return f.past.store.ContentOf(ctx, f.head)
}
