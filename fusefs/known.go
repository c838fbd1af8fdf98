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

// knownAt is the path of which the session knows what stands for n: the one that the
// log has, or where n is in this mount, or was. Caller holds fs.mu.
func (n *node) knownAt() string {
	m := n.now()
	if m.isInLog() {
		return m.head.Path()
	}
	if path, ok := m.path(); ok {
		return path
	}
	return m.was
}

// known is what the session knows of what stands for n. Caller holds fs.mu.
func (n *node) known() session.Knowledge {
	if n.now().removed {
		return session.Knowledge{}
	}
	return n.store.known.Of(n.knownAt())
}

// learn replaces that by what change makes of it. Caller holds fs.mu.
func (n *node) learn(change func(session.Knowledge) session.Knowledge) {
	if !n.now().removed {
		n.store.known.Update(n.knownAt(), change)
	}
}

// note sets what the session knows of a path; where a file stands for it, only if
// nothing is known. Caller holds fs.mu.
func (s *store) note(path string, known session.Knowledge) {
	switch {
	case path == "":
	case s.made(path) != nil || s.findHidden(path) != nil:
		s.known.Note(path, known)
	default:
		s.known.Set(path, known)
		s.known.Left(path)
	}
}

// knownBelow notes which files below dir the log does not have. When dir has moved, the caller
// calls follow, by which what the session knows of them moves along. Caller holds fs.mu.
func (s *store) knownBelow(dir *node) (follow func()) {
	at := map[*node]string{}
	var walk func(*node)
	walk = func(n *node) {
		for _, child := range n.children {
			walk(child)
		}
		if !n.isDir() && n.isMountOnly() {
			at[n] = n.knownAt()
		}
	}
	walk(dir)
	return func() {
		for n, from := range at {
			s.known.Moved(from, n.knownAt())
		}
	}
}

// followKnown has what the session knows follow a commit that the tree shows already.
// Caller holds fs.mu.
func (s *store) followKnown(c *versionlog.Commit) {
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

// learnMissed has the session know what it has made itself on top of what it knew. What
// it has moved it need not have read. Caller holds fs.mu.
func (s *store) learnMissed(c *versionlog.Commit) {
	v := &c.Versions[0]
	if own := s.fs.opts.Session; own == "" || c.Session != own || len(c.Versions) > 1 || v.Op != versionlog.OpCreated && v.Op != versionlog.OpModified {
		return
	}
	if n := s.made(v.Path); n != nil && n.known().Precedes(v) {
		s.known.Set(v.Path, n.known().Wrote(memory.NewHead(v)))
	}
}
