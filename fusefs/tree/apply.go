package tree

import (
	"strings"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// ApplyLocked brings a commit of another session into the tree and tells the kernel.
func (t *Tree) ApplyLocked(c *versionlog.Commit) {
	for i := range c.Versions {
		if v := &c.Versions[i]; v.Redacted() {
			t.eraseLocked(v)
		}
	}
	for _, v := range c.Versions { // entries that leave make room for entries that arrive
		if v.Redacted() {
			continue
		}
		if v.Op == versionlog.OpDeleted && !v.IsDir() {
			t.freeLocked(v.Path, v)
		}
	}
	for _, v := range c.Versions {
		if v.IsDir() {
			t.applyDirLocked(v)
			continue
		}
		if v.Redacted() {
			continue
		}
		switch v.Op {
		case versionlog.OpCreated, versionlog.OpModified:
			t.InstallLocked(v)
		case versionlog.OpRenamed:
			t.relocateLocked(v)
		}
	}
}

// freeLocked makes a path absent because of v.
func (t *Tree) freeLocked(path string, v versionlog.Version) {
	if n := t.FindHiddenLocked(path); n != nil && n.head.Seq() < v.Seq {
		t.revealLocked(n, path)
	}
	n := t.FindLocked(path)
	if !n.IsMemoryLocked() || n.IsMemorySinceLocked(v.Seq) {
		return
	}
	t.LeftLocked(n, v.Time)
}

// FreedLocked takes what c, of this mount, has removed or moved away out of the tree: also
// what another session has put there since the tree was asked.
func (t *Tree) FreedLocked(c *versionlog.Commit) {
	for _, v := range c.Versions {
		freed := freedBy(v)
		if freed == "" {
			continue
		}
		if v.IsDir() {
			t.freeOwnDirLocked(freed, v)
			continue
		}
		t.freeLocked(freed, v)
	}
}

// InstallLocked makes v the head of its path.
func (t *Tree) InstallLocked(v versionlog.Version) {
	if t.outdatedLocked(v) {
		return
	}
	if n := t.FindHiddenLocked(v.Path); n != nil {
		if n.head.Seq() >= v.Seq {
			return
		}
		t.revealLocked(n, v.Path) // another session wrote it: it must be seen
	}
	dir, name := t.dirOfLocked(&v)
	n := dir.children[name]
	if n != nil && n.IsDir() { // empty, or holding only this mount's scratch files
		t.evictLocked(n)
		n = nil
	}
	t.endHiddenDirLocked(dir, name)
	if n == nil {
		n = t.newEntry(t.opts.FileMode(&v), v.Time)
		t.AttachLocked(dir, name, n)
		n.SetHeadLocked(memory.NewHead(&v), v.Spelling)
		t.session.Came(v.Path)
		dir.TouchLocked(v.Time)
		t.told.NameLocked(dir, name, n)
		return
	}
	if n.IsMemorySinceLocked(v.Seq) {
		return
	}
	t.session.Came(v.Path)
	hides := n.IsHiddenLocked()
	var hidden versionlog.Version
	if hides {
		hidden = n.VersionLocked()
	}
	t.SupersedeLocked(n, dir, name, v)
	if hides { // nothing can give it its name back any longer
		t.UnhideLocked(n)
		t.InstallLocked(hidden)
	}
}

// ShowLocked brings a head that was read from the log into the tree, unless the follower has told
// the tree of it, and of later commits.
func (t *Tree) ShowLocked(v versionlog.Version) {
	switch {
	case v.Seq <= t.applied && t.loading.done:
	case v.IsDir():
		t.installDirLocked(v)
	default:
		t.InstallLocked(v)
	}
}

// relocateLocked follows a rename.
func (t *Tree) relocateLocked(v versionlog.Version) {
	n := t.FindLocked(v.From)
	known := n.IsMemoryLocked() && n.head.OfMemory(&v) && !n.IsMemorySinceLocked(v.Seq)
	free := t.FindLocked(v.Path) == nil && t.FindHiddenLocked(v.Path) == nil && !t.outdatedLocked(v)
	if known {
		t.session.Followed(v.From, v.Path, t.FindLocked(v.Path) == nil && t.FindHiddenLocked(v.Path) == nil)
	}
	if !known || !free {
		t.freeLocked(v.From, v)
		t.InstallLocked(v)
		return
	}
	from := n.parent
	delete(from.children, n.name) // first: the new path may lead through the old one
	t.told.NameLocked(from, n.name, nil)
	from.TouchLocked(v.Time)
	dir, name := t.dirOfLocked(&v)
	t.endHiddenDirLocked(dir, name)
	dir.TouchLocked(v.Time)
	m := t.SupersedeLocked(n, dir, name, v)
	t.session.Came(v.Path)
	if m == n { // else SupersedeLocked has told of the name
		t.told.NameLocked(dir, name, m)
	}
	t.PruneLocked(from)
}

// dirOfLocked returns the directory that v's path is in, made where it is missing, and the name
// there.
func (t *Tree) dirOfLocked(v *versionlog.Version) (dir *Entry, name string) {
	path, name := Split(v.Path)
	dir = t.makeDirsLocked(path, v.Time)
	t.spellDirsLocked(dir, v)
	return dir, name
}

// makeDirsLocked returns the directory of a path, made where it is missing. A file in the way is
// one that this mount has not committed, or one that was read from the log and is now gone there.
func (t *Tree) makeDirsLocked(path string, at time.Time) *Entry {
	dir := t.root
	if path == "" {
		return dir
	}
	for end := range segmentEnds(path) {
		_, name := Split(path[:end])
		n := dir.children[name]
		if n != nil && !n.IsDir() {
			t.evictLocked(n)
			n = nil
		}
		if n == nil {
			n = t.newChildLocked(dir, path[:end], t.opts.DirMode(path[:end]), at)
			dir.TouchLocked(at)
		}
		dir = n
	}
	return dir
}

// evictLocked takes n, with what is below it, out of the tree, because another
// session has put something else in its place.
func (t *Tree) evictLocked(n *Entry) {
	n.noteLastPathLocked()
	t.told.NameLocked(n.parent, n.name, nil)
	t.DetachLocked(n)
	t.evictedBelowLocked(n)
}

// evictedBelowLocked keeps what the session knows of n and all below it, and shows again
// what was hidden there.
func (t *Tree) evictedBelowLocked(n *Entry) {
	switch {
	case n.IsHiddenLocked():
		t.UnhideLocked(n)
		t.InstallLocked(n.VersionLocked())
	case n.IsMemoryLocked():
		t.session.Went(n.lastPath)
	}
	for name, h := range n.hidden { // what is there instead says that it is gone
		t.revealLocked(h, n.lastPath+"/"+name)
	}
	for _, d := range n.hiddenDirs {
		t.evictedBelowLocked(d)
	}
	for _, c := range n.children {
		t.evictedBelowLocked(c)
	}
}

// endHiddenDirLocked is evictedBelowLocked for everything hidden in a directory that had a name
// which another session has given to a file.
func (t *Tree) endHiddenDirLocked(dir *Entry, name string) {
	if d := dir.hiddenDirs[name]; d != nil {
		d.noteLastPathLocked()
		t.evictedBelowLocked(d)
	}
}

// installDirLocked makes a directory of the log be in the tree.
func (t *Tree) installDirLocked(v versionlog.Version) {
	path := strings.TrimSuffix(v.Path, "/")
	if t.freedSinceLocked(&v) {
		return // removed since
	}
	if n := t.FindHiddenLocked(path); n != nil && n.head.Seq() < v.Seq {
		t.revealLocked(n, path)
	}
	n := t.makeDirsLocked(path, v.Time)
	if n.marker < v.Seq {
		n.marker, n.markerOf = v.Seq, v.MemoryID
		t.spellDirsLocked(n, &v)
	}
}

// freeDirLocked takes a directory out of the tree that v has removed or moved away, unless
// something is in it here.
func (t *Tree) freeDirLocked(path string, v versionlog.Version) {
	n := t.FindDirLocked(strings.TrimSuffix(path, "/"))
	if n == nil || n == t.root || n.marker >= v.Seq {
		return
	}
	n.marker = 0
	n.SetStaysLocked(false)
	t.PruneLocked(n)
}

// applyDirLocked brings a version of a directory into the tree.
func (t *Tree) applyDirLocked(v versionlog.Version) {
	if freed := freedBy(v); freed != "" {
		t.freeDirLocked(freed, v)
	}
	if v.Live() {
		t.installDirLocked(v)
	}
}

// freeOwnDirLocked is freeDirLocked where this mount has done it: the directory above
// stays, as it does when a file is removed.
func (t *Tree) freeOwnDirLocked(path string, v versionlog.Version) {
	if n := t.FindDirLocked(strings.TrimSuffix(path, "/")); n != nil && n.parent != nil {
		n.parent.SetStaysLocked(true)
	}
	t.freeDirLocked(path, v)
}

// MetAtPathLocked gives n's place to the version that a commit has met there, before the
// log has been followed so far; nil is that there is none.
func (n *Entry) MetAtPathLocked(theirs *versionlog.Version) {
	t := n.tree
	switch path, ok := n.PathLocked(); {
	case theirs != nil:
		if hidden := t.FindHiddenLocked(theirs.Path); hidden != nil && n.unlogged && path == theirs.Path {
			t.UnhideLocked(hidden)
			t.InstallLocked(hidden.VersionLocked()) // the follower has met it long ago, and will not again
		}
		t.ShowLocked(*theirs)
	case ok && !n.unlogged:
		t.LeftLocked(n, time.Now())
	}
}
