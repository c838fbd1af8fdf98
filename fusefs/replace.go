package fusefs

import (
	"bytes"
	"fmt"
	"syscall"
	"time"

	"mneme/cas"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// replacement is a file that becomes the next version of a memory, whose path
// it is renamed to.
type replacement struct {
	move    *move
	path    string
	spelled string // path as the program has it
	data    []byte
	changes uint64              // of the file's stage
	theirs  *memory.Head        // what is at path; nil: no memory
	head    *versionlog.Version // what is at path after the commit
	newer   *versionlog.Version // what is there by now, if another session has replaced head
	base    *memory.Head        // what it is to replace
	seen    session.Knowledge   // of path
	also    []memory.Change     // in the same commit
	key     string              // of its first commit; "": a fresh one
	message string
	back    *session.Change // that it would have taken back; nil: none
}

// replace commits a replacement, if what is there is what the session knows.
func (fs *fileSystem) replace(r *replacement) error {
	fs.mu.Lock()
	stale := false
	var judge []session.Change
	if t := r.move.target; t != nil {
		r.move.target = t.nowLocked() // what moves is still what r was drawn up for, whatever has its old name
	}
	r.base = r.theirs
	if holder := r.move.holderLocked(); holder != nil && holder.head != nil {
		stale = holder.knownLocked().Stale(r.theirs) && r.theirs.Digest() != cas.Sum(r.data)
		r.base, r.seen = holder.knownLocked().Expected(r.theirs), holder.knownLocked()
		if !stale {
			judge = holder.knownLocked().ToJudge()
		}
		if status := fs.admitBlindLocked(holder); !status.Ok() {
			fs.mu.Unlock()
			return syscall.Errno(status)
		}
	}
	fs.mu.Unlock()
	if r.back = r.move.s.takesBack(judge, r.theirs, r.data); r.back != nil && !fs.mergeBackOver(r) {
		return fs.loseRename(r)
	}
	for range maxRebases {
		if stale && !fs.mergeOver(r) {
			return fs.loseRename(r)
		}
		key := r.key
		if r.key = ""; key == "" {
			key = versionlog.NewKey()
		}
		put := memory.Change{Action: versionlog.Put, Path: r.path, Spelling: r.spelled, Content: r.data, Expect: expectVersion(r.base)}
		err := r.move.s.commitWith(key, func(opts *memory.CommitOptions) (*versionlog.Commit, error) {
			opts.Message = r.message
			c, err := r.move.s.memory.Batch(fs.ctx, append([]memory.Change{put}, r.also...), opts)
			if err == nil {
				r.head, err = r.made(c)
			}
			return c, err
			//archtest:locked commitWith calls it with the lock
		}, func(c *versionlog.Commit) { fs.replacedLocked(r, c) })
		theirs, lost := conflictHead(err, r.path)
		if !lost {
			return err
		}
		r.theirs, stale = memory.NewHead(theirs), true
	}
	return fs.loseRename(r)
}

// made returns the version that a commit has made of a replacement, or the one
// of somebody else's who wrote the very same bytes. When that has been replaced
// since, it is a conflict, unless the commit has done the rest.
func (r *replacement) made(c *versionlog.Commit) (*versionlog.Version, error) {
	for i := range c.Versions {
		if v := &c.Versions[i]; v.Path == r.path && v.Live() {
			return v, nil
		}
	}
	head, err := r.move.s.written(r.path, r.data, r.base)
	if newer, replaced := conflictHead(err, r.path); replaced && len(c.Versions) > 0 {
		r.newer = newer
		return r.sameBytes(c.Seq), nil
	}
	return head, err
}

// sameBytes returns the version that was at the path, with the bytes of the
// replacement, as of a commit; or, where it is not found, what the replacement
// was to replace.
func (r *replacement) sameBytes(seq uint64) *versionlog.Version {
	s := r.move.s
	for v, err := range s.memory.History(s.fs.ctx, r.path) {
		if err != nil || v.Seq <= seq {
			if err == nil && v.Digest == cas.Sum(r.data) {
				return &v
			}
			break
		}
	}
	return r.base.Version()
}

// holderLocked is the file that stands for the memory at the path that a file moves
// to: the target, or what this mount hides there; nil when there is neither.
func (m *move) holderLocked() *node {
	if m.target.isMemory() {
		return m.target
	}
	return m.to.hidden[m.new]
}

// mergeOver makes a replacement one of theirs, if the mount merges and it can be
// merged.
func (fs *fileSystem) mergeOver(r *replacement) bool {
	if !fs.opts.Merge || r.base == nil || r.theirs == nil {
		return false
	}
	base, theirs := r.move.s.text(r.base), r.move.s.text(r.theirs)
	if base == nil || theirs == nil {
		return false
	}
	merged, ok := memory.Merge(base, theirs, r.data)
	if ok {
		r.message = mergeMessage(r.theirs, r.base)
		r.data, r.base = merged, r.theirs
	}
	return ok
}

// mergeBackOver is mergeOver for one that takes a change back.
func (fs *fileSystem) mergeBackOver(r *replacement) bool {
	under := r.back.Under(r.theirs)
	merged, ok := r.move.s.mergedBack(r.back, r.theirs, r.data)
	if ok {
		r.message, r.data = mergeMessage(r.theirs, under), merged
	} else {
		r.base = under
	}
	return ok
}

func mergeMessage(theirs, base *memory.Head) string {
	return fmt.Sprintf("merge of %s with what was written on top of %s", theirs.ID(), base.ID())
}

// loseRename keeps what would have replaced theirs. When the kernel tries a
// second time, it is kept already.
func (fs *fileSystem) loseRename(r *replacement) error {
	s := r.move.s
	fs.mu.Lock()
	s.noteLocked(r.path, session.Of(r.base).Refused())
	holder := r.move.holderLocked()
	if holder == nil { // it was not in the tree before the commit met it
		holder = s.madeLocked(r.path)
	}
	if holder != nil {
		holder.learnLocked(session.Knowledge.Refused)
	}
	fs.mu.Unlock()
	s.keepOnce(loss{path: r.path, base: r.base, theirs: r.theirs, yours: r.data, back: r.back})
	return fs.opts.ConflictErrno
}

// keepOnce keeps what a rename has lost, unless that is the kernel's second try of
// it. Callers hold no lock of the tree.
func (s *store) keepOnce(l loss) {
	s.fs.mu.Lock()
	last := s.lastLoss
	repeated := last.path == l.path && memory.SameText(last.theirs, l.theirs) && bytes.Equal(last.yours, l.yours)
	s.lastLoss = l
	s.fs.mu.Unlock()
	if !repeated {
		s.keep(l, 0)
	}
}

// replacedLocked brings a file over target into the tree.
func (fs *fileSystem) replacedLocked(r *replacement, c *versionlog.Commit) {
	m, head := r.move, r.head
	m.s.wroteLocked(r.path)
	newer := r.newer
	if t := m.to.children[m.new]; t.isMemorySince(head.Seq + 1) {
		v := t.versionLocked()
		newer = &v
	}
	// Another session has written the very same bytes, and the follower has met that it
	// has removed them since.
	gone := len(c.Versions) == 0 && (m.s.gone[r.path] > head.Seq ||
		m.s.loading.done && head.Seq <= m.s.applied && m.s.madeLocked(r.path) == nil && m.s.findHidden(r.path) == nil)
	if hidden := m.to.hidden[m.new]; hidden != nil {
		m.s.unhideLocked(hidden)
	}
	m.s.unhideLocked(m.n)
	from, itself, own := m.n.knownAtLocked(), m.n.knownByItselfLocked(), m.n.knownLocked()
	unread := m.s.isUnreadLocked(m.n) // another session's, that moves along
	fs.takeLocked(m)
	m.n.setHeadLocked(memory.NewHead(head), head.Spelling)
	m.n.setLocal(false)
	m.to.settleLocked()
	seen := r.seen.Wrote(m.n.head)
	switch {
	case r.message != "": // who merges does not know what came of it
		if seen = r.seen.Added(m.n.head, r.base).NotRefused(); r.back != nil {
			seen = seen.Refused()
		}
	case unread && r.also != nil:
		seen = own
	}
	if itself && from != r.path {
		m.s.known.Set(from, session.Knowledge{})
	}
	m.s.known.Set(r.path, seen)
	m.s.unspoolLocked(m.n)
	if st := m.n.stage(); st != nil && !st.overtaken {
		st.base = m.n.head
		st.tails, st.tail = false, nil
		st.committed = max(st.committed, r.changes)
		if st.changes == r.changes {
			st.dirty, st.wrote = false, false
			st.data, st.loaded = nil, false
		}
		if st.writers == 0 && !st.dirty {
			m.n.setStageLocked(nil)
		}
		fs.reckonLocked(m.n, st)
	}
	if r.message != "" { // the kernel has other bytes of it
		m.s.succeedLocked(m.n, m.to, m.new, *head)
	}
	for _, c := range r.also {
		m.s.leaveUnreadLocked(c.Path, m.n.nowLocked())
	}
	switch {
	case newer != nil:
		m.s.placeLocked(*newer)
	case gone:
		m.s.leaveLocked(m.n, time.Now())
	}
}
