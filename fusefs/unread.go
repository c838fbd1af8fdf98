package fusefs

import (
	"fmt"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/quote"
	"mneme/versionlog"
)

// A rename moves whatever is at a path by then, also what another session has put
// there and this one has not read. Who then makes the path anew, as programs do
// that save a file by renaming the old one away, replaces that as surely as if it
// had been overwritten. So the session's knowledge of the path outlives the rename:
// until what has moved away has been read under its new name, nothing is put in its
// place. What is only appended replaces nothing.

// leaveUnreadLocked notes that this session has just moved n away from path.
func (s *store) leaveUnreadLocked(path string, n *node) {
	const most = 1 << 16
	delete(s.unread, path)
	if n != nil && s.isUnreadLocked(n) && len(s.unread) < most {
		s.unread[path] = n
	}
}

// isUnreadLocked reports whether the session may not overwrite n.
func (s *store) isUnreadLocked(n *node) bool {
	return n.head != nil && (n.knownLocked().Stale(n.head) || s.fs.opts.Strict && !n.knownLocked().IsKnown())
}

// leftUnreadLocked returns the file that this session has moved away from path and has
// still not read, or nil.
func (s *store) leftUnreadLocked(path string) *node {
	n := s.unread[path]
	if n == nil {
		return nil
	}
	n = n.nowLocked()
	if _, there := n.logPath(); !there || !s.isUnreadLocked(n) {
		delete(s.unread, path)
		return nil
	}
	return n
}

// refuseUnreadLocked answers who is about to put something at path, in the place of n,
// which was moved away from there unread.
func (s *store) refuseUnreadLocked(path string, n *node) fuse.Status {
	at, _ := n.path()
	s.errors.AddConflict(path, fmt.Sprintf("%s:%s was not saved: %s; read %s and redo your edit", s.slug(), path, unreadBecauseLocked(n), quote.Name(at)))
	return fuse.Status(s.fs.opts.ConflictErrno)
}

// unreadBecauseLocked says why nothing is put where n was.
func unreadBecauseLocked(n *node) string {
	at, _ := n.path()
	return fmt.Sprintf("what was there was moved to %s by this session, which has not read what another one had changed in it (now version %d %s)",
		quote.Name(at), n.head.Seq(), by(n.head))
}

// vacatedUnreadLocked notes what c, of this mount, has moved away unread. c is in the tree
// already.
func (s *store) vacatedUnreadLocked(c *versionlog.Commit) {
	for _, v := range c.Versions {
		if v.Op == versionlog.OpRenamed {
			s.leaveUnreadLocked(v.From, s.madeLocked(v.Path))
		}
	}
}
