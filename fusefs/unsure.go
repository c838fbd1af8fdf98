package fusefs

import (
	"maps"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
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

// sure finds out what became of the commits whose replies were lost, of what has a
// name in a directory and of all below that, before the name changes: each is tried
// again under the path that it was for. Callers hold no lock.
func (fs *fileSystem) sure(dir *node, name string) fuse.Status {
	canonical, err := memory.ParseName(name)
	if err != nil {
		return fuse.OK // the request itself refuses it
	}
	fs.mu.RLock()
	var drafts []*draft
	for _, d := range dir.store.unsure {
		if d.st.attempt == d && d.resumed && d.n.now().isAtOrBelow(dir.children[canonical]) {
			drafts = append(drafts, d)
		}
	}
	fs.mu.RUnlock()
	for _, d := range drafts {
		status := fs.commitFile(d.n, d.st, saved)
		fs.mu.RLock()
		unknown := d.st.attempt == d
		fs.mu.RUnlock()
		if unknown {
			return status
		}
	}
	return fuse.OK
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
	for _, v := range c.Versions {
		if freed := freedBy(v); freed != "" {
			s.note(freed, base{known: true})
		}
		if v.Op != versionlog.OpCreated && v.Op != versionlog.OpModified || v.Message != "" {
			continue
		}
		if n := s.made(v.Path); n != nil && n.head.Seq == v.Seq {
			n.seen = base{true, &v}
		} else {
			s.note(v.Path, base{true, &v})
		}
	}
}
