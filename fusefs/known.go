package fusefs

import (
	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// session.Known keeps the session's knowledge of each path; the mount tells it where files come
// and go, and which file a path stands for. A file that is made at a path under which this mount
// hides a memory is that memory's next version: both have one path in the log, so they share what
// the session knows.

// isOursLocked reports whether no other session can change the memory that stands for n: it is
// removed, or was hidden until the log lost it, and is a scratch file that begins with its
// content there.
func isOursLocked(n *tree.Entry) bool {
	m := n.LatestLocked()
	return m.IsRemovedLocked() || m.HeadLocked() != nil && m.KnownByItselfLocked()
}

// knownLocked is what the session knows of the memory that stands for n.
func knownLocked(n *tree.Entry) session.Knowledge {
	if isOursLocked(n) {
		return session.Knowledge{}
	}
	return storeOf(n).known.Of(n.KnownAtLocked())
}

// updateKnownLocked replaces that by what change makes of it.
func updateKnownLocked(n *tree.Entry, change func(session.Knowledge) session.Knowledge) {
	if !n.LatestLocked().IsRemovedLocked() {
		storeOf(n).known.Update(n.KnownAtLocked(), change)
	}
}

// holdsLocked notes what the session knows by head, which holds a draft of a file of which
// it knew that before.
func (s *store) holdsLocked(before session.Knowledge, d *session.Draft, head *memory.Head) {
	s.known.Update(head.Path(), func(now session.Knowledge) session.Knowledge {
		if now.Head() != nil && now.Head().Seq() > head.Seq() { // read since
			return now
		}
		return before
	})
	s.session.Holds(d, head)
}

// isUnreadLocked reports whether the session may not overwrite n.
func isUnreadLocked(n *tree.Entry) bool {
	return n.HeadLocked() != nil && (knownLocked(n).Stale(n.HeadLocked()) || storeOf(n).fs.opts.Strict && !knownLocked(n).IsKnown())
}

// noteLocked sets what the session knows of a path; where a file stands for it, only if
// nothing is known.
func (s *store) noteLocked(path string, known session.Knowledge) {
	switch {
	case path == "":
	case s.tree.FindMemoryLocked(path) != nil || s.tree.FindHiddenLocked(path) != nil:
		s.known.Note(path, known)
	default:
		s.known.Set(path, known)
		s.known.Went(path)
	}
}

// followKnownLocked has what the session knows follow a commit that the tree shows already.
func (s *store) followKnownLocked(c *versionlog.Commit) {
	for _, v := range c.Versions {
		switch {
		case v.IsDir() || v.Redacted():
		case v.Op == versionlog.OpRenamed:
			s.known.Followed(v.From, v.Path, false)
		case v.Op == versionlog.OpDeleted:
			s.known.Went(v.Path)
		}
	}
}

// adoptMissedLocked makes the session know the versions that it has made itself on top of those
// it knew. The session need not have read a version that it has moved.
func (s *store) adoptMissedLocked(c *versionlog.Commit) {
	if own := s.fs.opts.Session; own == "" || c.Session != own || len(c.Versions) != 1 {
		return
	}
	v := &c.Versions[0]
	if v.Redacted() || v.Op != versionlog.OpCreated && v.Op != versionlog.OpModified {
		return
	}
	if n := s.tree.FindMemoryLocked(v.Path); n != nil && knownLocked(n).Precedes(v) {
		s.known.Set(v.Path, knownLocked(n).Wrote(memory.NewHead(v)))
	}
}

// knowing is what the tree tells the session, and asks of it.
type knowing struct{ s *store }

// Came and Went say that the mount has a file at a path from now on, or no longer.
func (k knowing) Came(path string) { k.s.known.Came(path) }
func (k knowing) Went(path string) { k.s.known.Went(path) }

// Followed says that another session has moved a memory, which the tree had. free: there was
// nothing at to.
func (k knowing) Followed(from, to string, free bool) { k.s.known.Followed(from, to, free) }

// Moved says that this session has moved what the log does not have.
func (k knowing) Moved(from, to string) { k.s.known.Moved(from, to) }

// Made reports whether a version is of this session. A session without an id has made nothing.
func (k knowing) Made(v *versionlog.Version) bool {
	own := k.s.fs.opts.Session
	return own != "" && v.Session == own
}

// Seen says how long programs took the file at a path to be, whose content has changed.
func (k knowing) Seen(path string, length int64) {
	k.s.known.Update(path, func(known session.Knowledge) session.Knowledge { return known.WithLength(length) })
}
