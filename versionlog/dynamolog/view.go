package dynamolog

import (
	"errors"
	"iter"
	"maps"
	"strings"

	"mneme/versionlog"
)

// bounds are the limits of a view.
type bounds struct {
	facts int // how many paths it remembers when it does not know all of them
	heads int // how many heads it keeps to know all of them, about 400 bytes each
	ring  int // how many of the last commits it remembers
}

var defaultBounds = bounds{facts: 8192, heads: 250_000, ring: 512}

// errUnknown says that a view does not know what it was asked.
var errUnknown = errors.New("not known yet")

// view is what a Log knows of a store. Everything in it is exact as of its tip,
// or newer; in the latter case the store has moved on, and no transaction
// conditioned on the tip can succeed. So what it says may be committed upon, but
// not be told to a caller before the view has caught up, and then only without
// what it has learnt since it began to (see before). It is guarded by the
// store's mutex, except that a committer reads it while it holds the mutex.
type view struct {
	bounds
	meta   meta // its tip is that of the view
	known  map[string]fact
	empty  map[string]siblings // what is known of directories without a complete view
	newest map[string]fact     // by memory, nil for one that never was; what the ring does not tell

	versions map[string]*versionlog.Version // by id, nil for one that is not there; what redactions ask for

	complete bool           // whether a path that is not in known has no memory
	dirs     map[string]int // live memories below a path; kept when complete
	walks    int            // walks that make the view complete and are under way
	floor    uint64         // the newest asOf that was forgotten
	forgot   int            // how many paths were forgotten

	ring []*versionlog.Commit // the last commits, up to the tip, without gaps

	reads int // how often it has learnt from reads, which may be newer than the tip
}

// fact is what is known of a path, the version that lives there, or of a memory,
// its newest one; or nil.
type fact struct {
	version *versionlog.Version
	asOf    uint64 // of a path: it was so after that commit, and is until a later one changes it
	read    int    // which of the view's reads told it, 0 for a commit
}

// siblings are the first versions below a path; more may follow unless all.
type siblings struct {
	versions []*versionlog.Version
	all      bool
	read     int
}

func newView(m *meta, b bounds) *view {
	v := &view{bounds: b, meta: *m, known: map[string]fact{}, empty: map[string]siblings{}, newest: map[string]fact{}, versions: map[string]*versionlog.Version{}}
	if m.tip.Seq == 0 && b.heads > 0 { // a store without commits holds nothing
		v.complete, v.dirs = true, map[string]int{}
	}
	return v
}

// Head is part of versionlog.View.
func (v *view) Head(path string) (*versionlog.Version, error) {
	if f, ok := v.known[path]; ok {
		return f.version, nil
	}
	if v.complete || v.underMemory(path) {
		return nil, nil
	}
	return nil, errUnknown
}

// underMemory reports whether a memory is known to lie above a path: then
// nothing lies there.
func (v *view) underMemory(path string) bool {
	for above := parentOf(path); above != ""; above = parentOf(above) {
		if v.known[above].version != nil {
			return true
		}
	}
	return false
}

// Below is part of versionlog.View.
func (v *view) Below(path string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		below, err := v.below(path)
		if err != nil {
			yield(versionlog.Version{}, err)
			return
		}
		for _, one := range below.versions {
			if !yield(*one, nil) {
				return
			}
		}
		if !below.all {
			yield(versionlog.Version{}, errUnknown)
		}
	}
}

// below returns what is known to lie below a path.
func (v *view) below(path string) (siblings, error) {
	if v.known[path].version != nil || v.underMemory(path) || v.complete && v.dirs[path] == 0 {
		return siblings{all: true}, nil
	}
	if v.complete {
		found := siblings{all: true}
		for _, f := range v.known {
			if f.version != nil && isBelow(f.version.Path, path) {
				found.versions = append(found.versions, f.version)
			}
		}
		return found, nil
	}
	found, ok := v.empty[path]
	if !ok {
		return found, errUnknown
	}
	return found, nil
}

// Newest is part of versionlog.View.
func (v *view) Newest(memoryID string) (*versionlog.Version, error) {
	for i := len(v.ring) - 1; i >= 0; i-- {
		if found := newestIn(v.ring[i], memoryID); found != nil {
			return found, nil
		}
	}
	if found, ok := v.newest[memoryID]; ok || uint64(len(v.ring)) == v.meta.tip.Seq { // which is the whole history
		return found.version, nil
	}
	return nil, errUnknown
}

// Version is part of versionlog.VersionView.
func (v *view) Version(id string) (*versionlog.Version, error) {
	found, ok := v.versions[id]
	if !ok {
		return nil, errUnknown
	}
	return found, nil
}

func newestIn(c *versionlog.Commit, memoryID string) *versionlog.Version {
	for i := len(c.Versions) - 1; i >= 0; i-- {
		if c.Versions[i].MemoryID == memoryID {
			return &c.Versions[i]
		}
	}
	return nil
}

// apply brings the view from its tip to the next commit. It ignores one that is in already,
// and reports whether the commit follows, and says all that it did: an erased version does
// not tell which path it left or took.
func (v *view) apply(c *versionlog.Commit) bool {
	tip := &v.meta.tip
	if c.Seq <= tip.Seq {
		return true
	}
	if c.Seq != tip.Seq+1 || c.Prev != tip.Digest || c.HasRedacted() {
		return false
	}
	for path := range leftBy(c) {
		v.touch(path)
		v.empty[path] = siblings{all: true} // nothing was below a memory
		v.set(path, fact{asOf: c.Seq})
	}
	for i := range c.Versions {
		one := &c.Versions[i]
		delete(v.newest, one.MemoryID)
		if one.Live() {
			v.touch(one.Path)
			v.set(one.Path, fact{version: one, asOf: c.Seq})
		}
	}
	*tip = tip.After(c)
	v.meta.Store = v.meta.After(c, v.meta.Replica) // what another process made of a replica, META tells: see reach
	if len(v.ring) == v.bounds.ring {
		v.ring = append(v.ring[:0:0], v.ring[v.bounds.ring/4:]...)
	}
	v.ring = append(v.ring, c)
	v.trim()
	return true
}

// leftBy yields the paths that a commit frees, and the version that tells.
func leftBy(c *versionlog.Commit) iter.Seq2[string, *versionlog.Version] {
	return func(yield func(string, *versionlog.Version) bool) {
		for i := range c.Versions {
			one := &c.Versions[i]
			switch {
			case one.Op == versionlog.OpRenamed && !yield(one.From, one):
				return
			case !one.Live() && !yield(one.Path, one):
				return
			}
		}
	}
}

// touch forgets what was known of the directories around a path.
func (v *view) touch(path string) {
	for ; path != ""; path = parentOf(path) {
		delete(v.empty, path)
	}
}

// set replaces what is known of a path by what is newer.
func (v *view) set(path string, f fact) {
	old, known := v.known[path]
	if known && old.asOf >= f.asOf {
		return
	}
	lived, lives := old.version != nil, f.version != nil
	if v.complete && !lives {
		delete(v.known, path)
	} else {
		v.known[path] = f
	}
	switch {
	case !v.complete || lived == lives:
	case lives:
		v.count(path, 1)
	default:
		v.count(path, -1)
	}
}

func (v *view) count(path string, by int) {
	for above := parentOf(path); above != ""; above = parentOf(above) {
		if v.dirs[above] += by; v.dirs[above] == 0 {
			delete(v.dirs, above)
		}
	}
}

// learn adds what a strongly consistent read found at a path, which began when
// the tip was as given.
func (v *view) learn(path string, found *versionlog.Version, began uint64) {
	asOf := began
	if found != nil {
		asOf = max(asOf, found.Seq)
	}
	// A fact that was forgotten since may have been newer.
	if v.complete || asOf < v.floor {
		return
	}
	v.reads++
	v.set(path, fact{found, asOf, v.reads})
}

// learnBelow adds what a strongly consistent read found below a path, unless a
// commit since touched something there.
func (v *view) learnBelow(path string, found siblings, began uint64) {
	since, ok := v.since(began)
	if !ok {
		return
	}
	for _, c := range since {
		for i := range c.Versions {
			if one := &c.Versions[i]; isBelow(one.Path, path) || isBelow(one.From, path) {
				return
			}
		}
	}
	v.reads++
	found.read = v.reads
	v.empty[path] = found
}

// learnNewest adds what a strongly consistent read found to be the newest
// version of a memory. Should a commit since have touched the memory, the ring
// tells, for as long as it remembers.
func (v *view) learnNewest(memoryID string, found *versionlog.Version, began uint64) {
	if _, ok := v.since(began); ok {
		v.reads++
		v.newest[memoryID] = fact{version: found, read: v.reads}
	}
}

// before returns the view without what it has learnt since it had learnt so often.
func (v *view) before(reads int) *view {
	if v.reads == reads {
		return v
	}
	old := *v
	later := func(_ string, f fact) bool { return f.read > reads }
	old.known, old.newest, old.empty = maps.Clone(v.known), maps.Clone(v.newest), maps.Clone(v.empty)
	maps.DeleteFunc(old.known, later)
	maps.DeleteFunc(old.newest, later)
	maps.DeleteFunc(old.empty, func(_ string, s siblings) bool { return s.read > reads })
	old.complete = false
	return &old
}

// trim keeps the view within its bounds. New facts stay until a commit, or until a proposal
// needs more facts.
func (v *view) trim() {
	switch {
	case len(v.empty) > v.facts:
		clear(v.empty)
	case len(v.newest) > v.facts:
		clear(v.newest)
	case len(v.versions) > v.facts:
		clear(v.versions)
	case v.complete && len(v.known) > v.bounds.heads:
		v.complete, v.dirs = false, nil
	}
	if v.complete || v.walks > 0 && len(v.known) <= v.bounds.heads {
		return
	}
	for path, f := range v.known { // in random order
		if len(v.known) <= v.facts {
			break
		}
		v.floor = max(v.floor, f.asOf)
		v.forgot++
		delete(v.known, path)
	}
}

// walk is a walk over all heads: the tip at which it began, and how many paths
// were forgotten until then.
type walk struct {
	began  uint64
	forgot int
}

// beginWalk says that a walk over all heads begins. Nothing is forgotten while
// it lasts, unless there are too many heads.
func (v *view) beginWalk() walk {
	v.walks++
	return walk{v.meta.tip.Seq, v.forgot}
}

// endWalk says that a walk has ended, and whether it came upon every live path.
func (v *view) endWalk(w walk, all bool) {
	v.walks--
	if !all || v.complete || w.began < v.floor || w.forgot < v.forgot || len(v.known) > v.bounds.heads {
		v.trim()
		return
	}
	v.knowAll()
}

// knowAll says that what is known are all heads.
func (v *view) knowAll() {
	v.reads++ // that there is nothing else
	v.complete, v.dirs, v.floor = true, map[string]int{}, 0
	v.empty = map[string]siblings{}
	for path, f := range v.known {
		if f.version != nil {
			v.count(path, 1)
		} else {
			delete(v.known, path)
		}
	}
}

// byKey returns the commit that p, which no commit up to absent is, has become, nil when
// there is none. errKey when the view does not remember that far.
func (v *view) byKey(p *versionlog.Proposal, absent uint64) (*versionlog.Commit, error) {
	for i := len(v.ring) - 1; i >= 0; i-- {
		if p.Became(v.ring[i]) {
			return v.ring[i], nil
		}
	}
	if _, ok := v.since(absent); !ok {
		return nil, errKey
	}
	return nil, nil
}

// since returns the commits above after, and whether the view has all of them.
func (v *view) since(after uint64) ([]*versionlog.Commit, bool) {
	if after >= v.meta.tip.Seq {
		return nil, true
	}
	n := v.meta.tip.Seq - after
	if n > uint64(len(v.ring)) {
		return nil, false
	}
	return v.ring[uint64(len(v.ring))-n:], true
}

// parentOf returns the path above, "" for the root.
func parentOf(path string) string { return path[:strings.LastIndexByte(path, '/')] }

func isBelow(path, above string) bool {
	return len(path) > len(above) && path[:len(above)] == above && path[len(above)] == '/'
}

// ahead is a view with commits on top that are not in the store yet.
type ahead struct {
	*view
	heads   map[string]*versionlog.Version // by path; nil where one left
	commits []*versionlog.Commit
}

// add puts a commit on top.
func (a *ahead) add(c *versionlog.Commit) {
	for path := range leftBy(c) {
		a.heads[path] = nil
	}
	for i := range c.Versions {
		if one := &c.Versions[i]; one.Live() {
			a.heads[one.Path] = one
		}
	}
	a.commits = append(a.commits, c)
}

// tip returns the end of the history with the commits on top.
func (a *ahead) tip() versionlog.Tip {
	tip := a.meta.tip
	for _, c := range a.commits {
		tip = tip.After(c)
	}
	return tip
}

// Head is part of versionlog.View.
func (a *ahead) Head(path string) (*versionlog.Version, error) {
	if head, ok := a.heads[path]; ok {
		return head, nil
	}
	return a.view.Head(path)
}

// Below is part of versionlog.View.
func (a *ahead) Below(path string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		for one, err := range a.view.Below(path) {
			if _, changed := a.heads[one.Path]; err == nil && changed {
				continue
			}
			if !yield(one, err) {
				return
			}
		}
		for _, head := range a.heads {
			if head != nil && isBelow(head.Path, path) && !yield(*head, nil) {
				return
			}
		}
	}
}

// Newest is part of versionlog.View.
func (a *ahead) Newest(memoryID string) (*versionlog.Version, error) {
	for i := len(a.commits) - 1; i >= 0; i-- {
		if found := newestIn(a.commits[i], memoryID); found != nil {
			return found, nil
		}
	}
	return a.view.Newest(memoryID)
}
