package fusefs

import (
	"strings"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// applyLocked brings a commit of another session into the tree and tells the kernel.
func (t *tree) applyLocked(c *versionlog.Commit) {
	for _, v := range c.Versions { // what leaves makes room for what arrives
		if v.Op == versionlog.OpDeleted && !v.IsDir() {
			t.vacateLocked(v.Path, v)
		}
	}
	for _, v := range c.Versions {
		if v.IsDir() {
			t.applyDirLocked(v)
			continue
		}
		switch v.Op {
		case versionlog.OpCreated, versionlog.OpModified:
			t.placeLocked(v)
		case versionlog.OpRenamed:
			t.relocateLocked(v)
		}
	}
}

// vacateLocked makes a path absent because of v.
func (t *tree) vacateLocked(path string, v versionlog.Version) {
	if n := t.findHidden(path); n != nil && n.head.Seq() < v.Seq {
		t.revealLocked(n, path)
	}
	n := t.find(path)
	if !n.isMemory() || n.isMemorySince(v.Seq) {
		return
	}
	t.leaveLocked(n, v.Time)
}

// leaveLocked takes a file out of the tree that another session has removed.
func (t *tree) leaveLocked(n *node, at time.Time) {
	dir := n.parent
	n.noteWasLocked()
	t.session.Left(n.was)
	t.told.NameLocked(dir, n.name, nil)
	t.told.AttributesLocked(n)
	dir.touchLocked(at)
	t.detachLocked(n)
	t.pruneLocked(dir)
}

// vacatedLocked takes what c, of this mount, has removed or moved away out of the tree: also
// what another session has put there since the tree was asked.
func (t *tree) vacatedLocked(c *versionlog.Commit) {
	for _, v := range c.Versions {
		freed := freedBy(v)
		if freed == "" {
			continue
		}
		if v.IsDir() {
			t.vacatedDirLocked(freed, v)
			continue
		}
		t.vacateLocked(freed, v)
	}
}

// placeLocked makes v the head of its path.
func (t *tree) placeLocked(v versionlog.Version) {
	if t.overtakenLocked(v) {
		return
	}
	if n := t.findHidden(v.Path); n != nil {
		if n.head.Seq() >= v.Seq {
			return
		}
		t.revealLocked(n, v.Path) // somebody else wrote it: it is to be seen
	}
	dir, name := t.dirOfLocked(&v)
	n := dir.children[name]
	if n != nil && n.isDir() { // empty, or holding only this mount's scratch files
		t.displaceLocked(n)
		n = nil
	}
	t.endHiddenDirLocked(dir, name)
	if n == nil {
		n = t.newNode(t.opts.FileMode(&v), v.Time)
		t.attachLocked(dir, name, n)
		n.setHeadLocked(memory.NewHead(&v), v.Spelling)
		t.session.Came(v.Path)
		dir.touchLocked(v.Time)
		t.told.NameLocked(dir, name, n)
		return
	}
	if n.isMemorySince(v.Seq) {
		return
	}
	t.session.Came(v.Path)
	hides := n.isHidden()
	var hidden versionlog.Version
	if hides {
		hidden = n.versionLocked()
	}
	t.succeedLocked(n, dir, name, v)
	if hides { // nobody can give it its name back any more
		t.unhideLocked(n)
		t.placeLocked(hidden)
	}
}

// showLocked brings a head that was read from the log into the tree, unless the tree
// has been told of it, and of what came after, by the follower.
func (t *tree) showLocked(v versionlog.Version) {
	switch {
	case v.Seq <= t.applied && t.loading.done:
	case v.IsDir():
		t.placeDirLocked(v)
	default:
		t.placeLocked(v)
	}
}

// relocateLocked follows a rename.
func (t *tree) relocateLocked(v versionlog.Version) {
	n := t.find(v.From)
	known := n.isMemory() && n.head.OfMemory(&v) && !n.isMemorySince(v.Seq)
	free := t.find(v.Path) == nil && t.findHidden(v.Path) == nil && !t.overtakenLocked(v)
	if known {
		t.session.Followed(v.From, v.Path, t.find(v.Path) == nil && t.findHidden(v.Path) == nil)
	}
	if !known || !free {
		t.vacateLocked(v.From, v)
		t.placeLocked(v)
		return
	}
	from := n.parent
	delete(from.children, n.name) // first: the new path may lead through the old one
	t.told.NameLocked(from, n.name, nil)
	from.touchLocked(v.Time)
	dir, name := t.dirOfLocked(&v)
	t.endHiddenDirLocked(dir, name)
	dir.touchLocked(v.Time)
	m := t.succeedLocked(n, dir, name, v)
	t.session.Came(v.Path)
	if m == n { // else succeed has told of the name
		t.told.NameLocked(dir, name, m)
	}
	t.pruneLocked(from)
}

// dirOfLocked returns the directory that v's path is in, made where it is missing, and the name
// there.
func (t *tree) dirOfLocked(v *versionlog.Version) (dir *node, name string) {
	path, name := split(v.Path)
	dir = t.makeDirsLocked(path, v.Time)
	t.spellDirsLocked(dir, v)
	return dir, name
}

// makeDirsLocked returns the directory of a path, made where it is missing. A file
// in the way is one that this mount has not committed, or one that was read
// from the log and is gone there by now.
func (t *tree) makeDirsLocked(path string, at time.Time) *node {
	dir := t.root
	if path == "" {
		return dir
	}
	for end := range segmentEnds(path) {
		_, name := split(path[:end])
		n := dir.children[name]
		if n != nil && !n.isDir() {
			t.displaceLocked(n)
			n = nil
		}
		if n == nil {
			n = t.newChildLocked(dir, path[:end], t.opts.DirMode(path[:end]), at)
			dir.touchLocked(at)
		}
		dir = n
	}
	return dir
}

// displaceLocked takes n, with what is below it, out of the tree, because another
// session has put something else in its place.
func (t *tree) displaceLocked(n *node) {
	n.noteWasLocked()
	t.told.NameLocked(n.parent, n.name, nil)
	t.detachLocked(n)
	t.displacedLocked(n)
}

// displacedLocked keeps what the session knows of n and all below it, and shows again
// what was hidden there.
func (t *tree) displacedLocked(n *node) {
	switch {
	case n.isHidden():
		t.unhideLocked(n)
		t.placeLocked(n.versionLocked())
	case n.isMemory():
		t.session.Left(n.was)
	}
	for name, h := range n.hidden { // what is there instead says that it is gone
		t.revealLocked(h, n.was+"/"+name)
	}
	for _, d := range n.hiddenDirs {
		t.displacedLocked(d)
	}
	for _, c := range n.children {
		t.displacedLocked(c)
	}
}

// endHiddenDirLocked is displaced for what is hidden in a directory that had a name
// which another session has given to a file.
func (t *tree) endHiddenDirLocked(dir *node, name string) {
	if d := dir.hiddenDirs[name]; d != nil {
		d.noteWasLocked()
		t.displacedLocked(d)
	}
}

// placeDirLocked makes a directory of the log be in the tree.
func (t *tree) placeDirLocked(v versionlog.Version) {
	path := strings.TrimSuffix(v.Path, "/")
	if t.gone[v.Path] > v.Seq {
		return // removed since
	}
	if n := t.findHidden(path); n != nil && n.head.Seq() < v.Seq {
		t.revealLocked(n, path)
	}
	n := t.makeDirsLocked(path, v.Time)
	if n.marker < v.Seq {
		n.marker = v.Seq
		t.spellDirsLocked(n, &v)
	}
}

// vacateDirLocked takes a directory out of the tree that v has removed or moved away, unless
// something is in it here.
func (t *tree) vacateDirLocked(path string, v versionlog.Version) {
	n := t.findDirLocked(strings.TrimSuffix(path, "/"))
	if n == nil || n == t.root || n.marker >= v.Seq {
		return
	}
	n.marker = 0
	n.keepLocked(false)
	t.pruneLocked(n)
}

// applyDirLocked brings a version of a directory into the tree.
func (t *tree) applyDirLocked(v versionlog.Version) {
	if freed := freedBy(v); freed != "" {
		t.vacateDirLocked(freed, v)
	}
	if v.Live() {
		t.placeDirLocked(v)
	}
}

// vacatedDirLocked is vacateDirLocked where this mount has done it: the directory above
// stays, as it does when a file is removed.
func (t *tree) vacatedDirLocked(path string, v versionlog.Version) {
	if n := t.findDirLocked(strings.TrimSuffix(path, "/")); n != nil && n.parent != nil {
		n.parent.keepLocked(true)
	}
	t.vacateDirLocked(path, v)
}

// yieldLocked gives n's place to the version that a commit has met there, before the
// log has been followed so far; nil is that there is none.
func (n *node) yieldLocked(theirs *versionlog.Version) {
	t := n.tree
	switch path, ok := n.path(); {
	case theirs != nil:
		if hidden := t.findHidden(theirs.Path); hidden != nil && n.local && path == theirs.Path {
			t.unhideLocked(hidden)
			t.placeLocked(hidden.versionLocked()) // the follower has met it long ago, and will not again
		}
		t.showLocked(*theirs)
	case ok && !n.local:
		t.leaveLocked(n, time.Now())
	}
}
