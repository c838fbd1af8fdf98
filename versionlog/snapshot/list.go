package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"mneme/versionlog"
)

// list is what one kind of page holds together, in the order of the keys.
type list struct {
	Count int    `json:"count"` // of lines
	Pages []page `json:"pages,omitempty"`
}

func (l *list) check() error {
	count := 0
	for i := range l.Pages {
		p := &l.Pages[i]
		if i > 0 && p.First <= l.Pages[i-1].First {
			return fmt.Errorf("page %d does not come after the one before", i)
		}
		count += p.Count
	}
	if count != l.Count {
		return fmt.Errorf("its pages have %d lines, not %d", count, l.Count)
	}
	return nil
}

// entry is what a line holds.
type entry interface {
	key() string // by which the lines of a list are ordered
}

// decode reads a line.
type decode[T entry] func(line []byte) (T, error)

// split reads the lines of page i of a list and makes sure that they are as many as they
// should be, in their order, and between the first of this page and that of the next.
func split[T entry](l *list, i int, raw []byte, decode decode[T]) ([]T, error) {
	p := &l.Pages[i]
	found := make([]T, 0, p.Count)
	before := ""
	for line := range bytes.Lines(raw) {
		one, err := decode(line[:len(line)-1])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(found), err)
		}
		key, n := one.key(), len(found)
		if n == 0 && key != p.First || n > 0 && key <= before || i+1 < len(l.Pages) && key >= l.Pages[i+1].First {
			return nil, fmt.Errorf("line %d is not where it should be", n)
		}
		found, before = append(found, one), key
	}
	if len(found) != p.Count {
		return nil, fmt.Errorf("it has %d lines, not %d", len(found), p.Count)
	}
	return found, nil
}

// read returns what page i of a list holds.
func read[T entry](ctx context.Context, source Source, l *list, i int, decode decode[T]) ([]T, error) {
	raw, err := l.Pages[i].get(ctx, source)
	if err != nil {
		return nil, err
	}
	entries, err := split(l, i, raw, decode)
	if err != nil {
		return nil, fmt.Errorf("snapshot: page %s: %w: %w", l.Pages[i].SHA256, versionlog.ErrCorrupt, err)
	}
	return entries, nil
}

// find returns the page of a list in which a key is, if it is in the list.
func (l *list) find(key string) int {
	i, found := slices.BinarySearchFunc(l.Pages, key, func(p page, key string) int { return strings.Compare(p.First, key) })
	if !found {
		i--
	}
	return max(i, 0)
}

// notBefore returns the entries that are not before a key.
func notBefore[T entry](entries []T, key string) []T {
	i, _ := slices.BinarySearchFunc(entries, key, func(one T, key string) int { return strings.Compare(one.key(), key) })
	return entries[i:]
}

// entries yields what a list holds from a key on, page by page as get returns them.
func entries[T entry](l *list, key string, get func(i int) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for i := l.find(key); i < len(l.Pages); i++ {
			page, err := get(i)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, one := range notBefore(page, key) {
				if !yield(one, nil) {
					return
				}
			}
		}
	}
}
