package virtual

import (
	"context"
	"errors"
	"hash/fnv"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// Versions is the path of the directory of all versions in the store.
const Versions = Root + "/versions"

// versions is .mneme/versions, or a directory in it: that of a path in the store. It has the
// versions of the memory there as files, by their sequence numbers, and a directory for each
// name that is there now. One that is not there any more can be looked up.
//
// A path may have been both, a memory and a directory. A number that is a version's is that
// version, and no name.
type versions struct {
	place
	past *past
	of   string // "/" is the root
}

func newVersions(p *past, made time.Time) *versions {
	return &versions{place: place{path: Versions, mode: syscall.S_IFDIR | 0o555, made: made, lasting: true}, past: p, of: "/"}
}

func (d *versions) Fixed() bool               { return false }
func (d *versions) Remove(string, bool) error { return syscall.EROFS }

// IsDated reports whether the time of a directory tells that its list has changed.
func IsDated(d Dir) bool {
	_, is := d.(*versions)
	return is
}

// Time is another after each commit, so that a kernel that keeps lists reads them anew.
func (d *versions) Time() time.Time {
	tip, known := d.past.store.KnownTip()
	if !known {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var err error
		if tip, err = d.past.store.Tip(ctx); err != nil {
			return d.made
		}
	}
	return changedAt(tip, d.made)
}

// changedAt is a time that is another after each commit.
func changedAt(tip versionlog.Tip, made time.Time) time.Time {
	if tip.Seq == 0 {
		return made
	}
	return tip.Time.Add(time.Duration(tip.Seq % 1000)) // commits of one microsecond differ, too
}

func (d *versions) Lookup(ctx context.Context, name string) (Node, error) {
	if _, isNumber := parseNumber(name); isNumber && d.of != "/" {
		v, err := d.past.store.Resolve(ctx, d.of, name)
		switch {
		case err == nil && hasText(v):
			f := newPastFile(d.past, d.file(name), memory.NewHead(&v))
			f.lasting = false // another memory may come to the path
			return f, nil
		case err != nil && !errors.Is(err, versionlog.ErrNotFound):
			return nil, err
		}
	}
	there, err := d.past.store.Known(ctx, path.Join(d.of, name))
	switch {
	case err != nil:
		return nil, err
	case !there:
		return nil, syscall.ENOENT
	}
	return d.sub(name), nil
}

// sub is part of assuming.
func (d *versions) sub(name string) Dir {
	return &versions{place: d.dir(name), past: d.past, of: path.Join(d.of, name)}
}

func hasText(v versionlog.Version) bool { return v.Live() && !v.IsDir() && !v.Redacted() }

func (d *versions) List(ctx context.Context) ([]Entry, error) {
	var entries []Entry
	numbers := map[string]bool{}
	if d.of != "/" {
		for v, err := range d.past.store.History(ctx, d.of) {
			if errors.Is(err, versionlog.ErrNotFound) {
				break
			}
			if err != nil {
				return nil, err
			}
			number := strconv.FormatUint(v.Seq, 10)
			if hasText(v) && !numbers[number] {
				numbers[number] = true
				entries = append(entries, Entry{number, syscall.S_IFREG, v.Seq})
			}
		}
	}
	above := strings.TrimSuffix(d.of, "/") + "/"
	for v, err := range d.past.store.Entries(ctx, d.of) {
		if err != nil {
			return nil, err
		}
		if name, _, _ := strings.Cut(v.Path[len(above):], "/"); !numbers[name] {
			entries = append(entries, Entry{name, syscall.S_IFDIR, placeOf(name)})
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return int(min(max(int64(a.Place-b.Place), -1), 1)) })
	return entries, nil
}

// placeOf is where a name stands in a list, behind all numbers.
func placeOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return 1<<62 | h.Sum64()>>2
}
