package fusefs

import (
	"maps"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// A commit may be in the log though it ended with an error: its reply was lost.
// That of a file is a draft, which is tried again with its key when the file is
// synced or closed again, or when its name is to change; that of names is not.
// Either may turn up when the log is followed.

// forgetUnsure drops drafts whose files have been given up, when there are many:
// should one turn out to be in the log, it is met as another session's.
// Caller holds fs.mu.
func (s *store) forgetUnsure() {
	const many = 64
	if len(s.unsure) < many {
		return
	}
	maps.DeleteFunc(s.unsure, func(_ string, d *draft) bool { return d.n.stage != d.st })
}

// nameIn is a name in a directory, canonical or not.
type nameIn struct {
	dir  *node
	name string
}

// excludeCommits takes ops for a change of names, and returns OK holding it. Of what
// has these names, and of all below, it is known then what became of the commits whose
// replies were lost: each is tried again first, under the path that it was for.
func (s *store) excludeCommits(of ...nameIn) fuse.Status {
	for {
		s.ops.Lock()
		drafts := s.unsureOf(of)
		if len(drafts) == 0 {
			return fuse.OK
		}
		s.ops.Unlock()
		for _, d := range drafts {
			status := s.fs.commitFile(d.n, d.st, saved)
			s.fs.mu.RLock()
			unknown := d.st.attempt == d
			s.fs.mu.RUnlock()
			if unknown {
				return status
			}
		}
	}
}

// unsureOf returns the drafts of files at or below some names of which it is not known
// whether they are in the log. Caller holds s.ops.
func (s *store) unsureOf(names []nameIn) (drafts []*draft) {
	s.fs.mu.RLock()
	defer s.fs.mu.RUnlock()
	for _, p := range names {
		canonical, err := memory.ParseName(p.name)
		if err != nil {
			continue // the request itself refuses it
		}
		for _, d := range s.unsure {
			if d.st.attempt == d && d.n.now().isAtOrBelow(p.dir.children[canonical]) {
				drafts = append(drafts, d)
			}
		}
	}
	return drafts
}

// isAtOrBelow reports whether n is top or lies below it. Caller holds fs.mu.
func (n *node) isAtOrBelow(top *node) bool {
	for ; n != nil && top != nil; n = n.parent {
		if n == top {
			return true
		}
	}
	return false
}

// owe notes that a commit may be in the log though its reply was lost: should the
// follower meet it, it is the session's own. Caller holds fs.mu.
func (s *store) owe(key string) {
	const many = 64
	if len(s.owed) >= many {
		clear(s.owed) // should one turn out to be in the log, it is met as another session's
	}
	s.owed[key] = true
}

// recognise notes what the session knows by a commit of its own that has been
// applied as if it were another's. Who merges does not know what came of it.
// Caller holds fs.mu.
func (s *store) recognise(c *versionlog.Commit) {
	s.vacated(c)
	for _, v := range c.Versions {
		if v.Op != versionlog.OpCreated && v.Op != versionlog.OpModified || v.Message != "" {
			continue
		}
		if n := s.made(v.Path); n != nil && n.head.Seq() == v.Seq {
			n.seen = n.seen.Wrote(n.head)
			n.mark()
		} else {
			s.note(v.Path, session.Of(memory.NewHead(&v)))
		}
	}
}
