// Package undo plans how a store, a directory or a memory is restored to an earlier state,
// and how the changes of one session are taken back while those of others stay. A plan is a
// list of steps, which package session commits. It reads through packages memory and
// history. Read plan.go first.
package undo

import (
	"maps"
	"slices"
	"strings"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// Target is the memory or directory that a step leaves at a path.
type Target struct {
	MemoryID string // the memory that gets another version; "" is a new one
	Spelling string // a form of the path; "" is none
	Digest   cas.Digest
	Source   *versionlog.Version // has the content; nil: Content is the content
	Content  []byte
	Deleted  bool // the memory was deleted, and comes back
}

// targetOf returns the target that brings a version back.
func targetOf(v *versionlog.Version) *Target {
	return &Target{MemoryID: v.MemoryID, Spelling: v.Spelling, Digest: v.Digest, Source: v}
}

// Step is one change of a plan.
type Step struct {
	Change memory.Change
	From   *versionlog.Version // what is there; nil: nothing
	To     *Target             // what will be there; nil: nothing
}

// Op is what the step does.
func (s *Step) Op() versionlog.Op {
	switch {
	case s.To == nil:
		return versionlog.OpDeleted
	case s.From == nil:
		return versionlog.OpCreated
	case s.Change.Action == versionlog.Rename:
		return versionlog.OpRenamed
	}
	return versionlog.OpModified
}

// Path is where the memory is then or, if it is removed, was. That of a directory ends in a slash.
func (s *Step) Path() string {
	if s.Change.Action == versionlog.Rename {
		return s.Change.To
	}
	return s.Change.Path
}

// Plan returns the steps by which the paths of want get their targets; a nil target means that
// nothing is at the path. Other paths stay as they are. The path of a directory ends in a slash.
//
// now has the live memories and directories: at the paths of want and at those above, below
// those of memories in want, and, below each directory in want, at least one that stays, if one
// does.
//
// Each path is in one step only, so that all steps may be one commit. They may also be several,
// one after another, wherever they are cut.
//
// A memory that gets another name and keeps its content is renamed, if nothing is in its way
// meanwhile. Otherwise it is removed here and made there: a commit changes a memory once.
// Directories are not renamed. A directory is removed when it becomes empty, and is made where
// nothing that stays implies it.
//
// blocked has the paths of want that cannot be reached, each with another path that is in its
// way and stays: no memory can be above or below another. A memory that would have moved there
// stays where it is.
func Plan(now map[string]*versionlog.Version, want map[string]*Target) (steps []Step, blocked map[string]string) {
	p := &plan{now: now, want: maps.Clone(want), at: map[string]string{}, blocked: map[string]string{}}
	for path, v := range now {
		p.at[v.MemoryID] = path
		if t := want[path]; t != nil && (v.IsDir() || v.Digest == t.Digest) {
			delete(p.want, path) // it is the case
		}
	}
	for path, t := range p.want {
		if t == nil && now[path] == nil {
			delete(p.want, path)
		}
	}
	p.settle()
	return p.steps(), p.blocked
}

// plan is a plan in the making.
type plan struct {
	now     map[string]*versionlog.Version
	want    map[string]*Target // what changes
	at      map[string]string  // by memory id: its path in now
	after   []string           // the paths that will exist, in order
	blocked map[string]string
}

// leaves reports whether the memory or directory at a path is removed.
func (p *plan) leaves(path string) bool {
	t, ok := p.want[path]
	return ok && t == nil
}

// settle removes from want the paths that cannot be reached, and the directories that are
// removed and made automatically.
func (p *plan) settle() {
	for path := range p.now {
		if !p.leaves(path) {
			p.after = append(p.after, path)
		}
	}
	for path, t := range p.want {
		if t != nil && p.now[path] == nil {
			p.after = append(p.after, path)
		}
	}
	slices.Sort(p.after)
	for p.keepDirs(); p.block(); p.keepDirs() {
	}
	var staying []string
	for path := range p.now {
		if !p.leaves(path) {
			staying = append(staying, path)
		}
	}
	slices.Sort(staying)
	for path, t := range p.want {
		if t != nil && isDirPath(path) && len(pathsBelow(staying, path)) > 0 {
			delete(p.want, path)
		}
	}
}

// keepDirs removes from want those directories whose target is nothing although something
// will be in them.
func (p *plan) keepDirs() {
	for _, path := range slices.Backward(p.sorted()) {
		if isDirPath(path) && p.leaves(path) && len(pathsBelow(p.after, path)) > 0 {
			p.stays(path)
		}
	}
}

// stays removes a path from want whose target is nothing.
func (p *plan) stays(path string) {
	delete(p.want, path)
	i, _ := slices.BinarySearch(p.after, path)
	p.after = slices.Insert(p.after, i, path)
}

// block removes one path from want that cannot be reached, and reports whether it found
// one.
func (p *plan) block() bool {
	for _, path := range p.sorted() {
		if p.want[path] == nil || p.now[path] != nil {
			continue
		}
		if other := overlapping(p.after, path); other != "" {
			p.blockBy(path, other)
			return true
		}
	}
	return false
}

// blockBy removes a path from want because something else is in its way. A memory that
// would have moved there stays, and is in the way of a memory that would have taken its
// place.
func (p *plan) blockBy(path, other string) {
	t := p.want[path]
	p.blocked[path] = other
	delete(p.want, path)
	if p.now[path] == nil {
		i, _ := slices.BinarySearch(p.after, path)
		p.after = slices.Delete(p.after, i, i+1)
	}
	from := p.at[t.MemoryID]
	switch next, changes := p.want[from]; {
	case from == "" || !changes:
	case next == nil:
		p.stays(from)
	case next.MemoryID != t.MemoryID:
		p.blockBy(from, from)
	}
}

func (p *plan) sorted() []string { return slices.Sorted(maps.Keys(p.want)) }

// steps returns the changes: removals come first, and changes that need a free place come
// last.
func (p *plan) steps() []Step {
	sources := p.renames()
	var before []string // what is there once all has gone that can go first
	for path := range p.now {
		if !p.leaves(path) || sources[path] != "" {
			before = append(before, path)
		}
	}
	slices.Sort(before)
	var late []string // directories that go when what is in them has been renamed away
	for path := range p.now {
		if isDirPath(path) && p.leaves(path) && len(pathsBelow(before, path)) > 0 {
			late = append(late, path)
		}
	}
	before = append(before, late...)
	slices.Sort(before)
	for from, to := range sources {
		if others := slices.DeleteFunc(allOverlapping(before, to), func(path string) bool { return path == from }); len(others) > 0 {
			delete(sources, from)
		}
	}
	targets := map[string]bool{}
	for _, to := range sources {
		targets[to] = true
	}
	var gone, dirsFirst, madeFirst, renamed, dirsLast, made []Step
	for _, path := range p.sorted() {
		head, t := p.now[path], p.want[path]
		switch {
		case sources[path] != "":
			to := sources[path]
			renamed = append(renamed, Step{From: head, To: p.want[to], Change: memory.Change{
				Action: versionlog.Rename, Path: path, To: to, Spelling: memory.Spelled(to, p.want[to].Spelling), Expect: versionlog.ExpectVersion(head.ID),
			}})
		case targets[path]:
		case t == nil:
			s := Step{From: head, Change: memory.Change{Action: versionlog.Remove, Path: path, Expect: versionlog.ExpectVersion(head.ID)}}
			switch {
			case !isDirPath(path):
				gone = append(gone, s)
			case slices.Contains(late, path):
				dirsLast = append(dirsLast, s)
			default:
				dirsFirst = append(dirsFirst, s)
			}
		case isDirPath(path):
			s := Step{To: t, Change: memory.Change{Action: versionlog.MakeDir, Path: path, Spelling: memory.Spelled(path, t.Spelling), Revive: t.revived(), Expect: versionlog.ExpectAny()}}
			if overlapping(before, path) == "" && len(pathsBelow(before, path)) == 0 {
				madeFirst = append(madeFirst, s)
			} else {
				made = append(made, s)
			}
		default:
			made = append(made, putting(path, head, t))
		}
	}
	slices.Reverse(dirsFirst) // what is in a directory before itself
	slices.Reverse(dirsLast)
	return slices.Concat(gone, dirsFirst, madeFirst, renamed, dirsLast, made)
}

// renames returns where memories may be renamed to, by where they are.
func (p *plan) renames() map[string]string {
	sources := map[string]string{}
	for path, t := range p.want {
		if t == nil || isDirPath(path) || p.now[path] != nil {
			continue
		}
		if from := p.at[t.MemoryID]; from != "" && p.leaves(from) && p.now[from].Digest == t.Digest {
			sources[from] = path
		}
	}
	return sources
}

func putting(path string, head *versionlog.Version, t *Target) Step {
	c := memory.Change{
		Action: versionlog.Put, Path: path, Spelling: memory.Spelled(path, t.Spelling), Content: t.Content, Digest: t.Digest, Source: t.Source,
		Expect: versionlog.ExpectAbsent(),
	}
	if head != nil {
		c.Expect = versionlog.ExpectVersion(head.ID)
	} else {
		c.Revive = t.revived()
	}
	return Step{Change: c, From: head, To: t}
}

// revived is the id of the deleted memory that is to come back.
func (t *Target) revived() string {
	if t.Deleted {
		return t.MemoryID
	}
	return ""
}

func isDirPath(path string) bool { return strings.HasSuffix(path, "/") }

// pathsBelow returns those of some paths, in order, that lie below a directory.
func pathsBelow(sorted []string, dir string) []string {
	first, found := slices.BinarySearch(sorted, dir)
	if found {
		first++
	}
	end, _ := slices.BinarySearch(sorted, dir[:len(dir)-1]+"0") // the part after the slash
	return sorted[first:end]
}

// overlapping returns one of some paths, in order, that cannot be there together with a path; "":
// there is none.
func overlapping(sorted []string, path string) string {
	if all := allOverlapping(sorted, path); len(all) > 0 {
		return all[0]
	}
	return ""
}

func allOverlapping(sorted []string, path string) (all []string) {
	if !isDirPath(path) { // what is below, and the directory itself
		first, _ := slices.BinarySearch(sorted, path+"/")
		end, _ := slices.BinarySearch(sorted, path+"0")
		all = append(all, sorted[first:end]...)
	}
	above := parentPath(path)
	if isDirPath(path) {
		above = path[:len(path)-1]
	}
	for ; above != ""; above = parentPath(above) {
		if _, ok := slices.BinarySearch(sorted, above); ok {
			all = append(all, above)
		}
	}
	return all
}

// parentPath returns the path of the parent; "" above the first name.
func parentPath(path string) string {
	path = strings.TrimSuffix(path, "/")
	return path[:max(0, strings.LastIndexByte(path, '/'))]
}
