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

// leaveUnread notes that this session has just moved n away from path. Caller
// holds fs.mu.
func (s *store) leaveUnread(path string, n *node) {
	const most = 1 << 16
	delete(s.unread, path)
	if n != nil && s.isUnread(n) && len(s.unread) < most {
		s.unread[path] = n
	}
}

// isUnread reports whether the session may not overwrite n. Caller holds fs.mu.
func (s *store) isUnread(n *node) bool {
	return n.head != nil && (n.known().Stale(n.head) || s.fs.opts.Strict && !n.known().IsKnown())
}

// leftUnread returns the file that this session has moved away from path and has
// still not read, or nil. Caller holds fs.mu.
func (s *store) leftUnread(path string) *node {
	n := s.unread[path]
	if n == nil {
		return nil
	}
	n = n.now()
	if _, there := n.logPath(); !there || !s.isUnread(n) {
		delete(s.unread, path)
		return nil
	}
	return n
}

// refuseUnread answers who is about to put something at path, in the place of n,
// which was moved away from there unread. Caller holds fs.mu.
func (s *store) refuseUnread(path string, n *node) fuse.Status {
	at, _ := n.path()
	s.errors.AddConflict(path, fmt.Sprintf("%s:%s was not saved: %s; read %s and redo your edit", s.slug(), path, unreadBecause(n), quote.Name(at)))
	return fuse.Status(s.fs.opts.ConflictErrno)
}

// unreadBecause says why nothing is put where n was. Caller holds fs.mu.
func unreadBecause(n *node) string {
	at, _ := n.path()
	return fmt.Sprintf("what was there was moved to %s by this session, which has not read what another one had changed in it (now version %d %s)",
		quote.Name(at), n.head.Seq(), by(n.head))
}

// vacatedUnread notes what c, of this mount, has moved away unread. Caller holds
// fs.mu and has brought c into the tree.
func (s *store) vacatedUnread(c *versionlog.Commit) {
	for _, v := range c.Versions {
		if v.Op == versionlog.OpRenamed {
			s.leaveUnread(v.From, s.made(v.Path))
		}
	}
}
