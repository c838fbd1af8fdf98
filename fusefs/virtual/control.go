package virtual

import (
	"context"
	"syscall"
	"time"
)

// Options configure a directory of control files; the zero value is the default.
type Options struct {
	// NoOpen says that files are not opened: each request is separate, and a text is made when a
	// program asks for its size. See text.
	NoOpen bool
	// GuideChanges says that README and note must be read again each time they are opened.
	GuideChanges bool
}

// Control is .mneme in a store, made at that time; nil options are the default.
func Control(s Store, made time.Time, opts *Options) Dir {
	c := &control{place: place{path: Root, mode: syscall.S_IFDIR | 0o555, made: made, lasting: true}, packs: newPacks(s, made)}
	var o Options
	if opts != nil {
		o = *opts
	}
	add := func(name string, n Node) {
		c.names = append(c.names, Entry{name, n.Mode() & syscall.S_IFMT, uint64(len(c.names)) + 1})
		c.nodes = append(c.nodes, n)
	}
	file := func(name string) place {
		p := c.file(name)
		p.lasting = true
		return p
	}
	add("README", &readme{file("README"), s.README, o.GuideChanges})
	past := newPast(s.Memory())
	c.past = past
	add("at", newAt(s, past, made))
	if kept := s.Conflicts(); kept != nil {
		add("conflicts", newConflicts(kept, made))
	}
	addText := func(name string, write func() []byte) {
		add(name, &text{place: file(name), write: write, shared: o.NoOpen, changed: made})
	}
	addText("errors", s.Errors)
	add("events", &events{place: file("events"), store: s, shared: o.NoOpen})
	add("note", &readme{file("note"), s.Note, o.GuideChanges})
	add("pack", c.packs)
	addText("status", s.Status)
	add("versions", newVersions(past, made))
	return c
}

// control is .mneme itself.
type control struct {
	place
	names []Entry // in the order of their names
	nodes []Node  // of each
	past  *past
	packs *packs
}

// ForgetPast drops what has been read of the past of the store of a directory that Control
// has made, and packs; nil: there is none.
func ForgetPast(dir Dir) {
	if c, ok := dir.(*control); ok {
		c.past.forget()
		c.packs.forget()
	}
}

func (c *control) Fixed() bool                           { return true }
func (c *control) List(context.Context) ([]Entry, error) { return c.names, nil }

func (c *control) Lookup(_ context.Context, name string) (Node, error) {
	for i, e := range c.names {
		if e.Name == name {
			return c.nodes[i], nil
		}
	}
	return nil, syscall.ENOENT
}

func (c *control) Remove(string, bool) error { return syscall.EROFS }
