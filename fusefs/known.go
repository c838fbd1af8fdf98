package fusefs

import (
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// What the session knows of each path is kept by session.Known; the mount tells it where
// files come and go, and which file a path stands for. A file that is made at a path
// under which this mount hides a memory is that memory's next version: both have one path
// in the log, and so what is known of one is known of the other.

// knownAtLocked is the path of which the session knows what stands for n: the one that the
// log has, or where n is in this mount, or was.
func (n *node) knownAtLocked() string {
	m := n.nowLocked()
	if m.isInLog() {
		return m.head.Path()
	}
	if path, ok := m.path(); ok {
		return path
	}
	return m.was
}

// knownByItselfLocked reports whether the log does not have n, and does not have
// anything at its path either that this mount hides.
func (n *node) knownByItselfLocked() bool {
	return n.hasName() && n.isMountOnly() && n.parent.hidden[n.name] == nil
}

// knownLocked is what the session knows of what stands for n.
func (n *node) knownLocked() session.Knowledge {
	if n.nowLocked().removed {
		return session.Knowledge{}
	}
	return n.store.known.Of(n.knownAtLocked())
}

// learnLocked replaces that by what change makes of it.
func (n *node) learnLocked(change func(session.Knowledge) session.Knowledge) {
	if !n.nowLocked().removed {
		n.store.known.Update(n.knownAtLocked(), change)
	}
}

// noteLocked sets what the session knows of a path; where a file stands for it, only if
// nothing is known.
func (s *store) noteLocked(path string, known session.Knowledge) {
	switch {
	case path == "":
	case s.madeLocked(path) != nil || s.findHidden(path) != nil:
		s.known.Note(path, known)
	default:
		s.known.Set(path, known)
		s.known.Left(path)
	}
}

// knownBelowLocked notes which files below dir the log does not have. When dir has moved, the caller
// calls follow, by which what the session knows of them moves along.
func (s *store) knownBelowLocked(dir *node) (follow func()) {
	at := map[*node]string{}
	var walkLocked func(*node)
	walkLocked = func(n *node) {
		for _, child := range n.children {
			walkLocked(child)
		}
		if !n.isDir() && n.knownByItselfLocked() {
			at[n] = n.knownAtLocked()
		}
	}
	walkLocked(dir)
	//archtest:locked it is called before the caller lets go of the lock
	return func() {
		for n, from := range at {
			s.known.Moved(from, n.knownAtLocked())
		}
	}
}

// followKnownLocked has what the session knows follow a commit that the tree shows already.
func (s *store) followKnownLocked(c *versionlog.Commit) {
	for _, v := range c.Versions {
		switch {
		case v.IsDir():
		case v.Op == versionlog.OpRenamed:
			s.known.Followed(v.From, v.Path, false)
		case v.Op == versionlog.OpDeleted:
			s.known.Left(v.Path)
		}
	}
}

// learnMissedLocked has the session know what it has made itself on top of what it knew. What
// it has moved it need not have read.
func (s *store) learnMissedLocked(c *versionlog.Commit) {
	v := &c.Versions[0]
	if own := s.fs.opts.Session; own == "" || c.Session != own || len(c.Versions) > 1 || v.Op != versionlog.OpCreated && v.Op != versionlog.OpModified {
		return
	}
	if n := s.madeLocked(v.Path); n != nil && n.knownLocked().Precedes(v) {
		s.known.Set(v.Path, n.knownLocked().Wrote(memory.NewHead(v)))
	}
}
