package fusefs

import (
	"fmt"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
	"mneme/session"
)

// takesBack returns the newest change that yours, written over head, takes back;
// nil when there is none. Callers hold no lock of the tree.
func (s *store) takesBack(changes []session.Change, head *memory.Head, yours []byte) *session.Change {
	return session.TakenBack(changes, head, yours, func(v *memory.Head) ([]byte, bool) {
		data, err := s.memory.ContentOf(s.fs.ctx, v)
		if err != nil {
			s.fs.log.Error("content to judge a write", "store", s.slug(), "path", v.Path, "err", err)
		}
		return data, err == nil
	})
}

// mergeBack merges a draft that takes a change back with the head that it replaces,
// if the mount merges and that can be done.
func (fs *fileSystem) mergeBack(d *draft, back *session.Change) (message string, ok bool) {
	merged, ok := d.n.store.mergedBack(back, d.base, d.data)
	if !ok {
		return "", false
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return mergeMessage(d.base, back.Under(d.base)), fs.rebaseOntoLocked(d, d.base, merged)
}

// mergedBack merges what takes a change back with head, if the mount merges.
func (s *store) mergedBack(back *session.Change, head *memory.Head, yours []byte) ([]byte, bool) {
	if !s.fs.opts.Merge {
		return nil, false
	}
	return back.MergeBack(head, yours, s.text)
}

// loseBack refuses a draft that takes a change back: it is based on what was there
// before. The caller has the node's turn and holds no lock.
func (fs *fileSystem) loseBack(d *draft, back *session.Change) fuse.Status {
	fs.mu.Lock()
	d.st.base = back.Under(d.base)
	fs.mu.Unlock()
	return fs.lose(d.n, d.st, d.base, back)
}

// admitRemovalLocked decides whether a memory may be removed: not when it is not what
// the session knows, nor when that is another session's change which it has only
// read.
func (s *store) admitRemovalLocked(n *node) fuse.Status {
	switch {
	case n.knownLocked().Stale(n.head):
		return s.refuseStaleLocked(n, n.head)
	case !n.knownLocked().OnlyRead():
		return fuse.OK
	}
	path, _ := n.logPath()
	n.learnLocked(session.Knowledge.Refused)
	changes := n.knownLocked().Changes()
	s.errors.AddConflict(path, s.takingBack(path, "removed", &changes[len(changes)-1])+"; "+redoTaken)
	return fuse.Status(s.fs.opts.ConflictErrno)
}

const redoTaken = "read it again, and do the same again if that is meant"

// takingBack says, for an agent, why a file was not saved, or removed.
func (s *store) takingBack(path, done string, back *session.Change) string {
	what := fmt.Sprintf("take back what version %d changed", back.To.Seq())
	if !back.Known {
		what = fmt.Sprintf("drop the end of version %d", back.To.Seq())
	}
	return fmt.Sprintf("%s:%s was not %s: that would %s (%s)", s.slug(), path, done, what, by(back.To))
}
