package tools

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mneme/errkind"
	"mneme/internal/quote"
)

// entry is what a listing has of a name.
type entry struct {
	name  string
	isDir bool
	size  int64             // of a directory, what is in it, hidden or not
	below map[string]*entry // of a directory whose names are listed
}

// listedLevels is how deep a listing goes.
const listedLevels = 2

// viewDirectory lists a directory, or says that nothing is there.
func (m *Memory) viewDirectory(ctx context.Context, a *address, lines []int64) (Result, error) {
	root, err := m.tree(ctx, a)
	switch {
	case err != nil:
		return Result{}, m.explain(err, a, false)
	case root == nil:
		return Result{}, failed(errkind.NotFound, m.opts.Texts.say(missing, a.shown))
	case lines != nil:
		return Result{}, failed(errkind.Invalid, m.opts.Texts.say(rangeOfDir, a.shown))
	}
	var rows []string
	m.opts.Texts.rows(root, a.shown, listedLevels, &rows)
	return Result{Text: m.cutRows(m.opts.Texts.say(directoryHead, a.shown), rows, firstDirectory(root, a.shown))}, nil
}

// tree returns what a listing has of a directory; nil: there is none.
func (m *Memory) tree(ctx context.Context, a *address) (*entry, error) {
	root := &entry{isDir: true}
	if a.place != nil {
		found, err := a.grow(ctx, root, a.path, nil)
		if err != nil || !found && a.path != "/" {
			return nil, err
		}
		return root, nil
	}
	for _, p := range m.places {
		root.add([]string{p.slug, ""}, 0)
		if _, err := p.grow(ctx, root, "/", []string{p.slug}); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// grow adds what is in a directory of a store to a tree, below some names. It reports whether
// there is such a directory.
func (p *place) grow(ctx context.Context, root *entry, dir string, top []string) (found bool, err error) {
	heads, err := p.idx.sync(ctx)
	if err != nil {
		return false, err
	}
	prefix := len(strings.TrimSuffix(dir, "/")) + 1
	for _, h := range heads.below(dir) {
		found = true
		root.add(append(top, strings.SplitN(h.Path()[prefix:], "/", listedLevels+1)...), h.Size())
	}
	return found, nil
}

// add adds a file of a size at the path of some names. A directory has an empty name at its
// end.
func (e *entry) add(names []string, size int64) {
	for level, name := range names {
		e.size += size
		if name == "" || level == listedLevels {
			return
		}
		if e.below == nil {
			e.below = map[string]*entry{}
		}
		one := e.below[name]
		if one == nil {
			one = &entry{name: name}
			e.below[name] = one
		}
		if e = one; level+1 < len(names) {
			e.isDir = true
		}
	}
	e.size += size
}

// rows adds the row of an entry and those of what is in it, down to some levels.
func (t Texts) rows(e *entry, shown string, levels int, rows *[]string) {
	row := t.size(e.size) + "\t" + shown
	if t == SDK && e.isDir && levels < listedLevels {
		row += "/"
	}
	*rows = append(*rows, row)
	if levels == 0 {
		return
	}
	for _, one := range e.sorted() {
		t.rows(one, shown+"/"+quote.Text(one.name), levels-1, rows)
	}
}

// sorted returns what is in a directory by name, but for what is hidden.
func (e *entry) sorted() []*entry {
	var shown []*entry
	for name, one := range e.below {
		if name[0] != '.' && name != "node_modules" {
			shown = append(shown, one)
		}
	}
	slices.SortFunc(shown, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	return shown
}

// firstDirectory returns the first directory in a listing, for an example.
func firstDirectory(root *entry, shown string) string {
	for _, one := range root.sorted() {
		if one.isDir {
			return shown + "/" + quote.Text(one.name)
		}
	}
	return shown
}

// cutRows joins a heading and rows, as many as a view has room for.
func (m *Memory) cutRows(head string, rows []string, example string) string {
	var b strings.Builder
	b.WriteString(head)
	room := m.room(head)
	for i, row := range rows {
		if room >= 0 && i > 0 {
			if room -= len(row) + 1; room < 0 {
				return b.String() + m.opts.Texts.say(listingCut, len(rows)-i, example)
			}
		}
		b.WriteString("\n" + row)
	}
	return b.String()
}

// size returns a number of bytes for a listing, in units of 1024.
func (t Texts) size(bytes int64) string {
	const units = "KMGTPE"
	if bytes < 1024 {
		return strconv.FormatInt(bytes, 10) + "B"
	}
	size, unit := float64(bytes), -1
	for size >= 1024 && unit < len(units)-1 {
		size /= 1024
		unit++
	}
	if t == SDK && size == float64(int64(size)) {
		return fmt.Sprintf("%.0f%c", size, units[unit])
	}
	return fmt.Sprintf("%.1f%c", size, units[unit])
}
