package verify

import (
	"fmt"
	"maps"
	"slices"

	"mneme/cas"
	"mneme/finding"
	"mneme/versionlog"
)

// replay is what follows from the records of a history, in their order.
type replay struct {
	heads  map[string]versionlog.Version // by path
	newest map[string]versionlog.Version // by memory id
	blobs  map[cas.Digest]use
	gaps   []uint64 // sequence numbers of commits that could not be read
}

// use says what needs a blob.
type use struct {
	size     int64
	versions int
	example  versionlog.Version // one of them, the newest
}

func newReplay() *replay {
	return &replay{
		heads: map[string]versionlog.Version{}, newest: map[string]versionlog.Version{},
		blobs: map[cas.Digest]use{},
	}
}

func (r *replay) gap(seq uint64) { r.gaps = append(r.gaps, seq) }

// hasGap reports whether a commit above after was not read.
func (r *replay) hasGap(after uint64) bool {
	return len(r.gaps) > 0 && r.gaps[len(r.gaps)-1] > after
}

// commit replays a commit and says what about it cannot follow from those
// before it.
func (r *replay) commit(c *versionlog.Commit) (wrong []string) {
	for _, v := range c.Versions { // what one version leaves another may take
		if before, known := r.newest[v.MemoryID]; known && r.live(before) { // v may be erased, and not tell from where
			delete(r.heads, before.Path)
		}
	}
	for _, v := range c.Versions {
		before, known := r.newest[v.MemoryID]
		if v.Parent != before.ID && !r.hasGap(before.Seq) {
			wrong = append(wrong, fmt.Sprintf("version %s of %s names %q as the one before it, which was %q", v.ID, v.Path, v.Parent, before.ID))
		}
		if !known && v.Op != versionlog.OpCreated && !r.hasGap(0) {
			wrong = append(wrong, fmt.Sprintf("version %s of %s was %s, but never created", v.ID, v.Path, v.Op))
		}
		r.newest[v.MemoryID] = v
		if !v.Live() || v.Redacted() {
			continue
		}
		r.heads[v.Path] = v
		if !v.Digest.IsZero() {
			r.blobs[v.Digest] = use{size: v.Size, versions: r.blobs[v.Digest].versions + 1, example: v}
		}
	}
	return wrong
}

// live reports whether v is the head of its path.
func (r *replay) live(v versionlog.Version) bool { return r.heads[v.Path].ID == v.ID }

// compare reports where heads differ from those that the records imply, except for the
// paths to skip and for differences that a commit which could not be read may explain.
func (r *replay) compare(found map[string]versionlog.Version, skip map[string]bool) []Problem {
	var problems []Problem
	differs := func(path, what string) {
		problems = append(problems, Problem{Kind: ProblemHead, Finding: finding.Head, Subject: path, What: what})
	}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		have, want := found[path], r.heads[path]
		switch {
		case skip[path] || same(have, want) || slices.Contains(r.gaps, have.Seq):
		case want.ID == "":
			differs(path, fmt.Sprintf("the index has version %s there, by the records nothing is there", have.ID))
		case have.ID != want.ID:
			differs(path, fmt.Sprintf("the index has version %s there, by the records it is %s", have.ID, want.ID))
		default:
			differs(path, fmt.Sprintf("the index and the records disagree about version %s", have.ID))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(r.heads)) {
		if _, ok := found[path]; !ok && !skip[path] && !r.hasGap(r.heads[path].Seq) {
			differs(path, fmt.Sprintf("by the records version %s is there, the index has nothing", r.heads[path].ID))
		}
	}
	return problems
}

func same(a, b versionlog.Version) bool {
	if a.Time.Equal(b.Time) {
		a.Time = b.Time // whatever its location
	}
	return a == b
}
