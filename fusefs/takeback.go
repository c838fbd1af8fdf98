package fusefs

import (
	"fmt"
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
	"mneme/session"
)

// holder is the file for which the session knows what is written to n: n, what
// took its place, or what this mount hides there. Caller holds fs.mu.
func (n *node) holder() *node {
	if n.hasLocalName() {
		if hidden := n.parent.hidden[n.name]; hidden != nil {
			return hidden
		}
	}
	return n.now()
}

// maxStoreChanges bounds the changes by others that the session has only read, of all
// paths of a store, some 1 KB each; when there are more, the older half goes.
const maxStoreChanges = 1 << 13

// learn sets what the session knows of n. Caller holds fs.mu.
func (n *node) learn(known session.Knowledge) {
	more := len(known.Changes()) > len(n.seen.Changes())
	n.seen = known
	n.mark()
	if s := n.store; more {
		if s.changes++; s.changes >= maxStoreChanges {
			s.forgetChanges()
		}
	}
}

// forgetChanges drops the older half of the changes. Caller holds fs.mu.
func (s *store) forgetChanges() {
	var seqs []uint64
	all := func(each func(session.Knowledge) session.Knowledge) {
		for _, n := range s.fs.nodes {
			if n.store == s && len(n.seen.Changes()) > 0 {
				n.seen = each(n.seen)
			}
		}
		for path, known := range s.lost {
			if len(known.Changes()) > 0 {
				s.lost[path] = each(known)
			}
		}
	}
	all(func(known session.Knowledge) session.Knowledge {
		for _, one := range known.Changes() {
			seqs = append(seqs, one.To.Seq())
		}
		return known
	})
	slices.Sort(seqs)
	oldest := seqs[max(0, len(seqs)-maxStoreChanges/2)]
	s.changes = 0
	all(func(known session.Knowledge) session.Knowledge {
		known = known.WithoutOlder(oldest)
		s.changes += len(known.Changes())
		return known
	})
}

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
	return mergeMessage(d.base, back.Under(d.base)), fs.rebaseOnto(d, d.base, merged)
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

// admitRemoval decides whether a memory may be removed: not when it is not what
// the session knows, nor when that is another session's change which it has only
// read. Caller holds fs.mu.
func (s *store) admitRemoval(n *node) fuse.Status {
	switch {
	case n.seen.Stale(n.head):
		return s.refuseStale(n, n.head)
	case !n.seen.OnlyRead():
		return fuse.OK
	}
	path, _ := n.logPath()
	n.seen = n.seen.Refused()
	n.mark()
	changes := n.seen.Changes()
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
