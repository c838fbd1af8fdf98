package pack

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"mneme/errkind"
	"mneme/memory"
)

// leastPart is how many bytes of a memory have to fit for a part of it to be shown; of a
// pinned one any part is.
const leastPart = 200

// maxUnshown bounds how many bytes are read of memories that turn out not to be text; tests
// change it. Another value makes other packs.
var maxUnshown int64 = 4 * MaxBytes

// contents writes what memories hold, to the first for which there is no room.
type contents struct {
	*page
	store *memory.Store

	full    bool            // nothing follows
	tried   map[string]bool // paths of those that need not be tried again
	unshown int64           // bytes that were read and are no text
}

// pin is a path that is pinned, and the memory there; nil: there is none.
type pin struct {
	path string
	head *memory.Head
}

// pinsOf returns the pinned memories, in their order, each once.
func pinsOf(heads []*memory.Head, o *Options) ([]pin, error) {
	if o.Pins == nil {
		return defaultPins(heads, o.Prefix), nil
	}
	var pins []pin
	for _, path := range o.Pins {
		path, err := memory.ParsePath(path)
		if err != nil {
			return nil, &OptionError{"Pins", err}
		}
		if !liesIn(path, o.Prefix) {
			return nil, &OptionError{"Pins", fmt.Errorf("%w: %s is pinned, which does not lie below %s", ErrOptions, shown(path), shown(o.Prefix))}
		}
		if !slices.ContainsFunc(pins, func(p pin) bool { return p.path == path }) {
			pins = append(pins, pin{path, find(heads, path)})
		}
	}
	return pins, nil
}

// defaultPins are those of DefaultPins that are there.
func defaultPins(heads []*memory.Head, prefix string) (pins []pin) {
	for _, name := range DefaultPins {
		path := strings.TrimSuffix(prefix, "/") + "/" + name
		if h := find(heads, path); h != nil {
			pins = append(pins, pin{path, h})
		}
	}
	return pins
}

// find returns the memory at a path among those in the order of their paths, or nil.
func find(heads []*memory.Head, path string) *memory.Head {
	i, found := slices.BinarySearchFunc(heads, path, func(h *memory.Head, path string) int { return strings.Compare(h.Path(), path) })
	if !found {
		return nil
	}
	return heads[i]
}

// newest returns heads in another order: the newest commit first, and of one commit by path.
func newest(heads []*memory.Head) []*memory.Head {
	return slices.SortedFunc(slices.Values(heads), func(a, b *memory.Head) int {
		return cmp.Or(cmp.Compare(b.Seq(), a.Seq()), strings.Compare(a.Path(), b.Path()))
	})
}

// writePinned writes the pinned memories, and of a path where there is none, that it is so.
func (c *contents) writePinned(ctx context.Context, pins []pin) error {
	c.tried = map[string]bool{}
	for _, p := range pins {
		if c.tried[p.path] = true; p.head == nil {
			c.full = c.full || !c.add(c.frame("pinned %s is not there", shown(p.path)))
			continue
		}
		if err := c.write(ctx, []*memory.Head{p.head}, "pinned", 1); err != nil {
			return err
		}
	}
	return nil
}

// writeNewest writes memories in the order that they come in; title says what they are.
func (c *contents) writeNewest(ctx context.Context, heads []*memory.Head, title string) error {
	heads = slices.DeleteFunc(heads, func(h *memory.Head) bool { return c.tried[h.Path()] })
	for len(heads) > 0 && !c.full {
		n := c.together(heads)
		if err := c.write(ctx, heads[:n], title, leastPart); err != nil {
			return err
		}
		heads = heads[n:]
	}
	return nil
}

// together says how many of the next memories to read at once: those that may fit, and at
// least one.
func (c *contents) together(heads []*memory.Head) int {
	n, size := 1, heads[0].Size()
	for n < min(len(heads), c.store.BatchSize()) && size+heads[n].Size() <= int64(c.room()) {
		size += heads[n].Size()
		n++
	}
	return n
}

// write writes memories. Those that are no text stand in the index only, and so do those
// that are larger than any pack.
func (c *contents) write(ctx context.Context, heads []*memory.Head, title string, least int) error {
	heads = slices.DeleteFunc(slices.Clone(heads), func(h *memory.Head) bool { return h.Size() > MaxBytes })
	all := c.store.Contents(ctx, heads)
	for i, h := range heads {
		if c.full {
			return nil
		}
		data := all[i]
		if data == nil {
			var err error
			if data, err = c.store.ContentOf(ctx, h); errkind.Of(err) == errkind.Corrupt {
				c.full = !c.add(c.frame("unreadable %s v%d", shown(h.Path()), h.Seq()))
				continue
			} else if err != nil {
				return err
			}
		}
		if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
			c.unshown += int64(len(data))
			c.full = c.unshown > maxUnshown
			continue
		}
		c.writeOne(h, data, title, least)
	}
	return nil
}

// writeOne writes a memory, or as much of it as there is room for.
func (c *contents) writeOne(h *memory.Head, data []byte, title string, least int) {
	head := c.frame("%s %s v%d %d bytes", title, shown(h.Path()), h.Seq(), len(data))
	if c.add(head + withBreak(data)) {
		c.shown++
		return
	}
	c.full = true
	cutAt := func(n int) string { return c.frame("cut: %d of %d bytes shown", n, len(data)) }
	room := c.room() - len(head) - len(cutAt(len(data))) - len("\n")
	if room < least {
		return
	}
	part := data[:partOf(data, room)]
	if len(part) > 0 && c.add(head+withBreak(part)+cutAt(len(part))) {
		c.shown++
	}
}

// withBreak is a content with a line break at its end.
func withBreak(data []byte) string {
	if len(data) == 0 || data[len(data)-1] == '\n' {
		return string(data)
	}
	return string(data) + "\n"
}

// partOf returns how much of a text to show in some room: whole lines, unless these fill
// less than half of the room; whole characters in any case.
func partOf(data []byte, room int) int {
	n := min(room, len(data))
	if lines := bytes.LastIndexByte(data[:n], '\n') + 1; lines > n/2 {
		return lines
	}
	for n > 0 && n < len(data) && !utf8.RuneStart(data[n]) {
		n--
	}
	return n
}
