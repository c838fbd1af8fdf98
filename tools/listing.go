package tools

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mneme/errkind"
	"mneme/internal/quote"
)

// entry is a name in a listing.
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
		return Result{}, m.explain(err, a.shown, false)
	case root == nil:
		return Result{}, failed(errkind.NotFound, m.opts.Texts.say(missing, a.shown))
	case lines != nil:
		return Result{}, failed(errkind.Invalid, m.opts.Texts.say(rangeOfDir, a.shown))
	}
	head := m.opts.Texts.say(directoryHead, a.shown)
	l := &listing{Texts: m.opts.Texts, room: m.room(head)}
	l.b.WriteString(head)
	l.add(root, a.shown, listedLevels)
	if l.left > 0 {
		more := fmt.Sprintf("%d more entries are", l.left)
		if l.left == 1 {
			more = "1 more entry is"
		}
		if dir := firstDirectory(root, a.shown); dir != "" {
			l.b.WriteString(m.opts.Texts.say(listingCut, more, dir))
		} else {
			l.b.WriteString(m.opts.Texts.say(listingFull, more))
		}
	}
	return Result{Text: l.b.String()}, nil
}

// tree returns the entries of a directory for a listing; nil: the directory does not exist.
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
		_, err := p.grow(ctx, root, "/", []string{p.slug})
		if isNotFound(err) {
			continue // the store has been deleted, and the others have not
		}
		if err != nil {
			return nil, err
		}
		root.in(p.slug, true) // also if nothing is in it
	}
	return root, nil
}

// grow adds the content of a directory of a store to a tree, below some names. It reports
// whether the directory exists.
func (p *place) grow(ctx context.Context, root *entry, dir string, top []string) (found bool, err error) {
	heads, err := p.idx.sync(ctx)
	if err != nil {
		return false, err
	}
	prefix := len(strings.TrimSuffix(dir, "/")) + 1
	for _, h := range heads.below(dir) {
		found = true
		root.add(top, h.Path()[prefix:], h.Size())
	}
	return found, nil
}

// add adds a file of a size at a path below some names. The path of a directory ends in a
// slash.
func (e *entry) add(top []string, path string, size int64) {
	e.size += size
	levels := listedLevels
	for _, name := range top {
		e = e.in(name, true)
		e.size += size
		levels--
	}
	for range levels {
		name, rest, isDir := strings.Cut(path, "/")
		if name == "" {
			return
		}
		e = e.in(name, isDir)
		e.size += size
		path = rest
	}
}

// in returns the entry of a name in a directory.
func (e *entry) in(name string, isDir bool) *entry {
	if e.below == nil {
		e.below = map[string]*entry{}
	}
	one := e.below[name]
	if one == nil {
		one = &entry{name: name}
		e.below[name] = one
	}
	one.isDir = one.isDir || isDir
	return one
}

// listing is a listing as it is written.
type listing struct {
	Texts
	b    strings.Builder
	room int // for characters; below 0: for any number
	left int // entries for which there was none
}

// add writes the row of an entry and those of the entries in it, down to some levels.
func (l *listing) add(e *entry, shown string, levels int) {
	if l.left > 0 {
		l.count(e, levels)
		return
	}
	row := "\n" + l.size(e.size) + "\t" + shown
	if l.Texts == SDK && e.isDir && levels < listedLevels {
		row += "/"
	}
	if l.room >= 0 && levels < listedLevels {
		if l.room -= utf8.RuneCountInString(row); l.room < 0 {
			l.count(e, levels)
			return
		}
	}
	l.b.WriteString(row)
	if levels > 0 {
		for _, one := range e.sorted() {
			l.add(one, shown+"/"+quote.Text(one.name), levels-1)
		}
	}
}

// count counts an entry and what is in it, down to some levels, as left out.
func (l *listing) count(e *entry, levels int) {
	l.left++
	if levels == 0 {
		return
	}
	for _, one := range e.below {
		if !one.isHidden() {
			l.count(one, levels-1)
		}
	}
}

// sorted returns the entries of a directory by name, except hidden ones.
func (e *entry) sorted() []*entry {
	var shown []*entry
	for _, one := range e.below {
		if !one.isHidden() {
			shown = append(shown, one)
		}
	}
	slices.SortFunc(shown, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	return shown
}

func (e *entry) isHidden() bool { return e.name[0] == '.' || e.name == "node_modules" }

// firstDirectory returns the first directory in a listing, for an example; "": there is none.
func firstDirectory(root *entry, shown string) string {
	for _, one := range root.sorted() {
		if one.isDir {
			return shown + "/" + quote.Text(one.name)
		}
	}
	return ""
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
