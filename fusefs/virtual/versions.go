package virtual

import (
	"context"
	"errors"
	"hash/fnv"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
)

// Versions is the path of the directory of all versions in the store.
const Versions = Root + "/versions"

// versions is .mneme/versions, or a directory in it: that of a path in the store. It has the
// versions of the memory there as files, by their sequence numbers, and a directory for each name
// that is there now. A name that is no longer there can be looked up. Where one commit made
// several versions of the path's history, those that its number does not mean have their ids.
//
// A path may have been both, a memory and a directory. A number or id that is a version's is
// that version, and no name.
type versions struct {
	place
	past *past
	of   string // "/" is the root
}

func newVersions(p *past, made time.Time) *versions {
	return &versions{place: place{path: Versions, mode: syscall.S_IFDIR | 0o555 | ownersWrite, made: made, lasting: true}, past: p, of: "/"}
}

func (d *versions) Fixed() bool               { return false }
func (d *versions) Remove(string, bool) error { return syscall.EROFS }

// IsDated reports whether the time of a directory tells that its list has changed.
func IsDated(d Dir) bool {
	_, is := d.(*versions)
	return is
}

// Time is another after each commit, so that a kernel that keeps lists reads them again.
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
	if d.of != "/" && isVersionName(name) {
		v, err := history.Resolve(ctx, d.past.store, d.of, name)
		switch {
		case err == nil && v.HasText():
			f := newPastFile(d.past, d.file(name), memory.NewHead(&v))
			f.lasting = false // another memory may come to the path
			return f, nil
		case err != nil && !errors.Is(err, versionlog.ErrNotFound) && !errors.Is(err, memory.ErrBadVersion):
			return nil, err
		}
	}
	there, err := history.Known(ctx, d.past.store, path.Join(d.of, name))
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
	return &versions{place: d.dir(name).copied(), past: d.past, of: path.Join(d.of, name)}
}

// isVersionName reports whether a name has the form of a version's.
func isVersionName(name string) bool {
	if _, isNumber := parseNumber(name); isNumber {
		return true
	}
	_, _, err := versionlog.LocateVersion(name)
	return err == nil
}

func (d *versions) List(ctx context.Context) ([]Entry, error) {
	var entries []Entry
	versions := map[string]bool{}
	if d.of != "/" {
		for commit, err := range d.texts(ctx) {
			if err != nil {
				return nil, err
			}
			named, err := d.named(ctx, commit)
			if err != nil {
				return nil, err
			}
			for _, e := range named {
				versions[e.Name] = true
			}
			entries = append(entries, named...)
		}
	}
	above := strings.TrimSuffix(d.of, "/") + "/"
	for v, err := range d.past.store.Entries(ctx, d.of) {
		if err != nil {
			return nil, err
		}
		if name, _, _ := strings.Cut(v.Path[len(above):], "/"); !versions[name] {
			entries = append(entries, Entry{name, syscall.S_IFDIR, placeOf(name)})
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return int(min(max(int64(a.Place-b.Place), -1), 1)) })
	return entries, nil
}

// texts yields the versions in the path's history that have a text, those of one commit together.
func (d *versions) texts(ctx context.Context) iter.Seq2[[]versionlog.Version, error] {
	return func(yield func([]versionlog.Version, error) bool) {
		var commit []versionlog.Version
		for v, err := range history.Versions(ctx, d.past.store, d.of) {
			switch {
			case errors.Is(err, versionlog.ErrNotFound): // nothing ever was there
				return
			case err != nil:
				yield(nil, err)
				return
			case !v.HasText():
				continue
			case len(commit) > 0 && commit[0].Seq != v.Seq:
				if !yield(commit, nil) {
					return
				}
				commit = nil
			}
			commit = append(commit, v)
		}
		if len(commit) > 0 {
			yield(commit, nil)
		}
	}
}

// named returns the names of versions that one commit made: its number for the one that is meant
// by it.
func (d *versions) named(ctx context.Context, commit []versionlog.Version) ([]Entry, error) {
	number, meant := strconv.FormatUint(commit[0].Seq, 10), commit[0]
	if len(commit) > 1 {
		var err error
		if meant, err = history.Resolve(ctx, d.past.store, d.of, number); err != nil {
			return nil, err
		}
	}
	var entries []Entry
	for _, v := range commit {
		if v.ID == meant.ID {
			entries = append(entries, Entry{number, syscall.S_IFREG, v.Seq})
		} else {
			entries = append(entries, Entry{v.ID, syscall.S_IFREG, placeOf(v.ID)})
		}
	}
	return entries, nil
}

// placeOf is where a name stands in a list, behind all numbers.
func placeOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return 1<<62 | h.Sum64()>>2
}
