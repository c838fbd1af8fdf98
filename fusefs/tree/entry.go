package tree

import (
	"iter"
	"strings"
	"syscall"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// Inode returns what is kept for the user; nil: nothing. Neither it nor hold needs the lock.
func (n *Entry) Inode() *Inode { return n.inode.Load() }

// KeepInode keeps h, unless something is kept already.
func (n *Entry) KeepInode(h *Inode) { n.inode.CompareAndSwap(nil, h) }

// DropInode drops what is kept for the user.
func (n *Entry) DropInode() { n.inode.Store(nil) }

// nothingAside is what most files have. It does not change.
var nothingAside = &aside{}

// setAside returns what n has aside, for a change.
func (n *Entry) setAside() *aside {
	if n.aside == nothingAside {
		n.aside = &aside{}
	}
	return n.aside
}

// SetHeadLocked makes a version what a reader of n gets while nothing is being written to it,
// with how it spells its path. Nothing else changes head.
func (n *Entry) SetHeadLocked(head *memory.Head, spelling string) {
	other := !memory.SameText(n.head, head)
	n.head = head
	if n.spelledInLog != spelling {
		n.setAside().spelledInLog = spelling
	}
	if other {
		n.tree.told.ContentLocked(n)
	}
	n.changedLocked()
}

// VersionLocked is what head was made of, as far as it is kept.
func (n *Entry) VersionLocked() versionlog.Version {
	v := n.head.Version()
	v.Spelling = n.spelledInLog
	return *v
}

func (n *Entry) IsDir() bool { return n.isDir }

// NewEntry makes the entry of a number, which is in no tree: the directory above some.
func NewEntry(id uint64, mode uint32, now time.Time) *Entry {
	n := &Entry{id: id, mode: uint16(mode), times: times{newStamp(now), newStamp(now)}, aside: nothingAside}
	if mode&syscall.S_IFMT == syscall.S_IFDIR {
		n.isDir, n.aside = true, &aside{directory: directory{children: map[string]*Entry{}}}
	}
	return n
}

// changedLocked tells that something about n has changed.
func (n *Entry) changedLocked() {
	if n.tree != nil {
		n.tree.told.ChangedLocked(n)
	}
}

// PathLocked is where n lies in its store, "" for the store's root, and false when n no longer
// has a place there.
func (n *Entry) PathLocked() (string, bool) {
	if n.head != nil && n.isAt(n.head.Path()) { // as a rule
		return n.head.Path(), true
	}
	var segments []string
	size := 0
	for n.tree.root != n {
		if n.parent == nil {
			return "", false
		}
		segments = append(segments, n.name)
		size += len("/") + len(n.name)
		n = n.parent
	}
	var b strings.Builder
	b.Grow(size)
	for i := len(segments) - 1; i >= 0; i-- {
		b.WriteByte('/')
		b.WriteString(segments[i])
	}
	return b.String(), true
}

// isAt reports whether n lies at a path.
func (n *Entry) isAt(path string) bool {
	for ; n != n.tree.root; n = n.parent {
		dir, isName := strings.CutSuffix(path, n.name)
		if n.parent == nil || !isName || !strings.HasSuffix(dir, "/") {
			return false
		}
		path = dir[:len(dir)-1]
	}
	return path == ""
}

// ChildPathLocked is the path a child of dir has or would have.
func (n *Entry) ChildPathLocked(name string) (string, bool) {
	dir, ok := n.PathLocked()
	return dir + "/" + name, ok
}

func Split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i], path[i+1:]
}

// SetMadeUpLocked notes that a file was made under a name that is meant to be temporary, or to
// find out whether files can be made.
func (n *Entry) SetMadeUpLocked(mkstemp, probe bool) {
	if mkstemp || probe {
		a := n.setAside()
		a.mkstemp, a.probe = mkstemp, probe
	}
}

// SetRemovedLocked says that a directory is about to be removed, so that nothing is made in it, or
// that it is not after all.
func (n *Entry) SetRemovedLocked(removed bool) { n.removed = removed }

// SetModeChosenLocked notes that a program has set the mode by a call of its own, after it made n.
func (n *Entry) SetModeChosenLocked() { n.setAside().modeChosen = true }

func (n *Entry) SetModeLocked(mode uint32)   { n.mode = uint16(mode) }
func (n *Entry) SetMTimeLocked(at time.Time) { n.mtime = newStamp(at) }
func (n *Entry) SetCTimeLocked(at time.Time) { n.ctime = newStamp(at) }
func (n *Entry) SetTimesLocked(at time.Time) { n.mtime, n.ctime = newStamp(at), newStamp(at) }
func (n *Entry) SetATimeLocked(at time.Time) { n.setAside().atime = at }

// TouchLocked notes that n has changed, in what it lists or holds. By its mtime the
// kernel tells whether what it has cached is still so, so that no two are equal.
func (n *Entry) TouchLocked(at time.Time) {
	if !at.After(n.MTimeLocked()) {
		at = n.MTimeLocked().Add(1)
	}
	n.SetTimesLocked(at)
	n.changedLocked()
}

// noteLastPathLocked notes the paths of n and all below it, for the programs that write there.
func (n *Entry) noteLastPathLocked() {
	if path, ok := n.PathLocked(); ok {
		n.setAside().lastPath = path
	}
	for _, c := range n.children {
		c.noteLastPathLocked()
	}
	for _, d := range n.hiddenDirs {
		d.noteLastPathLocked()
	}
}

// IsSupersededLocked reports whether another entry has taken n's place.
func (n *Entry) IsSupersededLocked() bool { return n.line != nil && n.line.last != n }

// LatestLocked is the entry that stands for n's memory now: n while it has its place.
func (n *Entry) LatestLocked() *Entry {
	for n.IsSupersededLocked() {
		n = n.line.last
	}
	return n
}

// segmentEnds yields where each name of a path ends.
func segmentEnds(path string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 1; i < len(path); i++ {
			if path[i] == '/' && !yield(i) {
				return
			}
		}
		yield(len(path))
	}
}
