package fusefs

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sync/errgroup"

	"mneme/cas"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// draft is what one commit of a file takes from its stage.
type draft struct {
	n       *node
	st      *stage
	key     string // idempotency key
	path    string
	spelled string // path as a new file has it
	data    []byte
	digest  cas.Digest   // of data; zero: not known
	base    *memory.Head // what it replaces; nil: no memory
	changes uint64       // of the stage
	tails   bool         // see stage
	tail    int          // how much of the stage's tail is in it
	message string
	scratch bool             // not to be committed, but to survive the mount
	same    bool             // as what it is based on
	resumed bool             // tried before, and not known to have failed
	lost    bool             // not to be committed, because of theirs
	theirs  *memory.Head     // nil: no memory
	judge   []session.Change // that it may take back
	back    bool             // merged, since it would have taken one back
}

// occasion is what a file is committed for.
type occasion int

const (
	saved    occasion = iota // it is closed or truncated
	synced                   // it is synced
	released                 // its last handle is gone
	lingered                 // it is a temporary file that was left alone
	ending                   // the mount ends
	unasked                  // it has grown, and nobody has closed it
)

// alone reports whether there is nothing to commit when somebody has opened the
// file to write it again: the close of that will come.
func (o occasion) alone() bool { return o == released || o == lingered }

// commitFile makes what was written to a file a version, if it changed
// anything. Scratch files go to the spool instead, temporary ones unless they
// have lingered.
func (fs *fileSystem) commitFile(n *node, st *stage, why occasion) fuse.Status {
	return fs.commitUpTo(n, st, why, nil)
}

// commitUpTo is commitFile for what the stage was at a mark, if that can be told
// from what was written since; nil is the newest.
func (fs *fileSystem) commitUpTo(n *node, st *stage, why occasion, upTo *mark) fuse.Status {
	defer n.store.dropSettled()
	tries := commitTries{why: why, upTo: upTo}
	for {
		var claimed []session.Claim
		release, err := n.store.claims.Take(fs.ctx, func() []session.Claim {
			fs.mu.RLock()
			defer fs.mu.RUnlock()
			claimed = n.saveClaimsLocked(st)
			return claimed
		})
		if err != nil {
			return fs.commitFailed(&draft{n: n, st: st, path: fs.where(n)}, err, why)
		}
		status, again := fs.commitClaimed(n, st, claimed, &tries)
		release()
		if !again {
			return status
		}
	}
}

// commitTries is how far a commit has come that may have to claim another path, since
// its file moves.
type commitTries struct {
	why      occasion
	upTo     *mark
	try      int
	message  string
	answered string // see draft
	met      refusals
	judged   bool
	back     bool // see draft
}

// commitClaimed is commitUpTo for a caller who has claims. It reports whether the file
// has moved and others have to be taken.
func (fs *fileSystem) commitClaimed(n *node, st *stage, claimed []session.Claim, c *commitTries) (status fuse.Status, again bool) {
	end, err := n.own().turn.Take(fs.ctx)
	if err != nil {
		return fs.commitFailed(&draft{n: n, st: st, path: fs.where(n)}, err, c.why), false
	}
	defer end()
	var copied int64
	defer fs.giveBack(&copied)
	for ; ; c.try++ {
		fs.mu.Lock()
		if !slices.Equal(n.saveClaimsLocked(st), claimed) {
			fs.mu.Unlock()
			return fuse.OK, true
		}
		d, status := fs.draftLocked(n, st, c.why, c.answered, c.upTo)
		if d != nil && d.lost && !d.tails && d.theirs != nil && d.theirs.Digest() == cas.Sum(d.data) {
			fs.committedLocked(d, *d.theirs.Version()) // they wrote the very same bytes
			d = nil
		}
		fs.holdCopyLocked(d, &copied)
		fs.mu.Unlock()
		if d == nil {
			return status, false
		}
		if d.scratch {
			return fs.spool(d, c.why), false
		}
		resumed := d.resumed
		if !resumed {
			d.message, d.back = c.message, c.back
		}
		if d.tails && c.try == 0 {
			n.store.takeTurn(d.path)
		}
		if !d.lost && !resumed && !c.judged {
			c.judged = true
			if taken := n.store.takesBack(d.judge, d.base, d.data); taken != nil {
				if c.message, c.back = fs.mergeBack(d, taken); c.back {
					continue
				}
				return fs.loseBack(d, taken), false
			}
		}
		if !d.lost {
			err := n.store.keepingMode(n, d.path, d.base, func() error { return fs.commitDraft(d) })
			switch {
			case err == nil && resumed: // now what was written since
				c.message = ""
				continue
			case err == nil:
				return fuse.OK, false
			}
			theirs, known := conflictHead(err, d.path)
			if !known {
				return fs.commitFailed(d, err, c.why), false
			}
			d.theirs = memory.NewHead(theirs)
			if c.met.stuck(d.theirs) {
				return fs.loseUnless(c.why == unasked, n, st, d.theirs), false
			}
			fs.mu.Lock()
			n.yieldLocked(theirs)
			path, _ := n.targetLocked()
			fs.mu.Unlock()
			if resumed && path != d.path { // known not to be in the log, and another session has moved it since
				continue
			}
		}
		var ok bool
		if c.message, ok = fs.rebase(d, d.theirs, c.try); !ok {
			return fs.loseUnless(c.why == unasked, n, st, d.theirs), false
		}
		if c.answered = ""; !d.lost {
			c.answered = d.path
		}
	}
}

// saveClaimsLocked is what a commit of a stage of n claims: the path where it is to go, and
// that of a commit whose reply was lost. A file without a place claims nothing.
func (n *node) saveClaimsLocked(st *stage) (claims []session.Claim) {
	path, _ := n.targetLocked()
	if path != "" {
		claims = append(claims, session.Claim{Path: path})
	}
	if d := st.attempt; d != nil && d.path != path {
		claims = append(claims, session.Claim{Path: d.path})
	}
	return claims
}

// commitDraft commits a draft, and brings it into the tree.
func (fs *fileSystem) commitDraft(d *draft) error {
	s := d.n.store
	if d.same { // no version, but what is written is durable
		if err := s.memory.Keep(fs.ctx, d.data); err != nil {
			return err
		}
		fs.mu.Lock()
		defer fs.mu.Unlock()
		fs.settleLocked(d)
		s.wroteLocked(d.path)
		if d.back {
			d.n.learnLocked(session.Knowledge.Refused)
		}
		return nil
	}
	put := memory.Change{Action: versionlog.Put, Path: d.path, Spelling: d.spelled, Content: d.data, Digest: d.digest, Expect: expectVersion(d.base)}
	fs.mu.Lock()
	if d.resumed && d.st.attempt != d { // the follower has met it since
		fs.mu.Unlock()
		return nil
	}
	s.forgetUnsureLocked()
	s.unsure[d.key], d.st.attempt = d, d
	fs.mu.Unlock()
	var satisfied bool
	began := time.Now()
	err := s.commitWith(d.key, func(opts *memory.CommitOptions) (*versionlog.Commit, error) {
		opts.Message, opts.Fresh = d.message, !d.resumed
		return s.memory.Batch(fs.ctx, []memory.Change{put}, opts)
		//archtest:locked commitWith calls it with the lock
	}, func(c *versionlog.Commit) {
		if c.Seq <= s.applied && d.st.attempt != d { // the follower has met it since
			return
		}
		if satisfied = len(c.Versions) == 0; !satisfied {
			fs.committedLocked(d, c.Versions[0])
			s.hadTurnLocked(d, began)
		}
	})
	if err == nil && satisfied {
		err = fs.satisfied(d)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if err != nil && !isFinal(err) && d.st.attempt == d {
		d.resumed = true
		return err // whether it is in the log shows when it is tried again
	}
	delete(s.unsure, d.key)
	if d.st.attempt == d {
		d.st.attempt = nil
	}
	return err
}

// satisfied is the end of a commit for which there was nothing to do, because
// somebody else wrote the very same bytes. That is a conflict for who appends:
// two who add the same line want two.
func (fs *fileSystem) satisfied(d *draft) error {
	head, err := d.n.store.written(d.path, d.data, d.base)
	if err != nil {
		return err
	}
	if d.tails && d.tail > 0 {
		return conflictWith(head, d.path, d.base)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.committedLocked(d, *head)
	return nil
}

// written returns the head of a path at which somebody else wrote data, where
// base was. It is a conflict if the path has got other bytes since.
func (s *store) written(path string, data []byte, base *memory.Head) (*versionlog.Version, error) {
	head, err := s.memory.Head(s.fs.ctx, path)
	switch {
	case errors.Is(err, versionlog.ErrNotFound):
		return nil, conflictWith(nil, path, base)
	case err != nil:
		return nil, err
	case head.Digest != cas.Sum(data):
		return nil, conflictWith(&head, path, base)
	}
	return &head, nil
}

func conflictWith(head *versionlog.Version, path string, base *memory.Head) error {
	return &versionlog.ConflictError{Conflicts: []versionlog.Conflict{{Path: path, Expected: expectVersion(base), Head: head}}}
}

// draftLocked takes from the stage what is to be committed, or says why nothing is. At
// the path that is answered, the log has just told the stage's base: the tree,
// which the follower may not have brought so far, is not asked.
func (fs *fileSystem) draftLocked(n *node, st *stage, why occasion, answered string, upTo *mark) (*draft, fuse.Status) {
	if st.err != 0 {
		return nil, fuse.Status(st.err)
	}
	if st.attempt != nil {
		return st.attempt, fuse.OK
	}
	m := n.nowLocked()
	if !st.dirty || m.removed || why.alone() && st.writers > 1 {
		return nil, fuse.OK
	}
	if n.local {
		kind := fs.classOf(n)
		if kind == editorScratch || kind == temporary && why != lingered && why != ending {
			return n.toSpoolLocked(st, why), fuse.OK
		}
	}
	if upTo != nil && upTo.changes <= st.committed { // by another close
		return nil, fuse.OK
	}
	later := fs.laterLocked(st, upTo)
	d := &draft{
		n: n, st: st, data: slices.Clone(st.data[:len(st.data)-later]), base: st.base, changes: st.changes,
		tails: st.tails, tail: len(st.tail) - later,
	}
	if later > 0 {
		d.changes = upTo.changes
	}
	d.key = n.store.spooledKeyLocked(st, d.changes)
	path, there := n.targetLocked()
	d.path, d.theirs = path, n.theirsLocked()
	moved := (m != n || !there) && path != answered
	if path == "" || st.overtaken || !st.tails && (n.stage() != st || !there) || moved && !memory.SameText(st.base, d.theirs) {
		d.lost = true // another session took its name away, or changed it
		return d, fuse.OK
	}
	if moved {
		d.base = d.theirs // only its path is another
	}
	if n.hasLocalName() {
		d.base = nil
		if hidden := n.parent.hidden[n.name]; hidden != nil {
			d.base = hidden.knownLocked().Expected(hidden.head)
		}
	}
	if n.local {
		d.spelled = n.spellingAtLocked(path)
	}
	if d.base != nil && !n.local && int64(len(d.data)) == d.base.Size() {
		d.digest = cas.Sum(d.data)
		d.same = d.digest == d.base.Digest()
	}
	if !d.tails && !d.same && !st.fresh {
		d.judge = n.knownLocked().ToJudge()
	}
	return d, fuse.OK
}

func expectVersion(v *memory.Head) versionlog.Expectation {
	if v == nil {
		return versionlog.ExpectAbsent()
	}
	return versionlog.ExpectVersion(v.ID())
}

// committedLocked notes that v holds what the draft was.
func (fs *fileSystem) committedLocked(d *draft, v versionlog.Version) {
	n, st, head := d.n, d.st, memory.NewHead(&v)
	n.store.wroteLocked(v.Path)
	n.store.unspoolStage(st)
	seen := n.store.known.Of(n.knownAtLocked())
	switch {
	case d.tails:
		seen = seen.Appended(head, d.base)
	case d.message != "":
		seen = seen.Merged(head, d.base)
	default:
		seen = seen.Wrote(head)
	}
	if d.back {
		seen = seen.Refused()
	}
	if path, ok := n.path(); !ok || path != v.Path {
		// Another session's commit has taken n's place.
		n.store.showLocked(v)
		if m := n.store.find(v.Path); m != nil && memory.SameVersion(m.head, head) {
			n.store.known.Set(v.Path, seen)
			n.leadLocked(m)
		} else if m := n.nowLocked(); m != n && memory.SameText(m.head, head) { // renamed since, by this mount
			m.learnLocked(func(known session.Knowledge) session.Knowledge { return known.Wrote(m.head) })
		}
		n.setHeadLocked(head, v.Spelling)
		st.base, st.overtaken = head, false
		fs.settleLocked(d)
		fs.notify.contentLocked(n)
		return
	}
	n.store.known.Set(v.Path, seen)
	if !n.isMemorySince(v.Seq) {
		n.setHeadLocked(head, v.Spelling)
		fs.notify.birthLocked(n)
	}
	if hidden := n.parent.hidden[n.name]; hidden != nil && n.local {
		n.store.unhideLocked(hidden)
	}
	n.parent.settleLocked()
	n.setLocal(false)
	st.base = head
	fs.settleLocked(d)
}

// settleLocked notes that what the stage was as of a draft is committed.
func (fs *fileSystem) settleLocked(d *draft) {
	st := d.st
	if st.attempt == d {
		st.attempt = nil
	}
	st.committed = max(st.committed, d.changes)
	st.first = st.last
	if st.changes == d.changes {
		st.dirty, st.wrote = false, false
		st.first = time.Time{}
		d.n.tallyLocked()
	}
	if d.tails && st.tails {
		st.tail = st.tail[min(d.tail, len(st.tail)):]
		fs.reckonLocked(d.n, st)
	}
}

// commitFailed decides what becomes of the stage. A memory that is too big, or
// whose path cannot be one, is final. Anything else may go away, so the stage
// stays for the next fsync or close.
func (fs *fileSystem) commitFailed(d *draft, err error, why occasion) fuse.Status {
	n, st := d.n, d.st
	if why == unasked {
		fs.log.Warn("appended bytes not committed yet", "store", n.store.slug(), "path", d.path, "err", err)
		return fuse.EIO
	}
	if errors.Is(err, versionlog.ErrOverlap) {
		n.store.keep(loss{path: d.path, base: d.base, yours: d.data, why: err.Error()}, 0)
	}
	status := n.store.fail("close", d.path, err)
	if errors.Is(err, versionlog.ErrOverlap) || errors.Is(err, memory.ErrTooBig) {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		fs.poisonLocked(n, st, syscall.Errno(status))
	}
	return status
}

// commitAll commits every file that is not committed but should be, when the
// mount ends.
func (fs *fileSystem) commitAll() {
	type pending struct {
		n  *node
		st *stage
	}
	dirty := map[pending]bool{}
	addLocked := func(n *node, st *stage) {
		if st != nil && st.dirty && !n.nowLocked().removed {
			dirty[pending{n, st}] = true
		}
	}
	fs.mu.RLock()
	for _, n := range fs.nodes {
		addLocked(n, n.stage())
	}
	for _, h := range fs.handles { // also of a stage whose place that of a later writer has taken
		addLocked(h.node, h.stage)
	}
	fs.mu.RUnlock()
	var work errgroup.Group
	work.SetLimit(16) // each may be a round trip
	for p := range dirty {
		work.Go(func() error {
			fs.commitUnheard(p.n, p.st, ending)
			return nil
		})
	}
	_ = work.Wait()
}

// commitUnheard is commitFile where no program hears of an error: what cannot
// be committed is kept as a conflict.
func (fs *fileSystem) commitUnheard(n *node, st *stage, why occasion) {
	if status := fs.commitFile(n, st, why); !status.Ok() {
		fs.keepUnheard(n, st, status)
	}
}

// keepUnheard keeps what could not be committed of a stage as a conflict, unless it is
// kept already: nobody hears of the error.
func (fs *fileSystem) keepUnheard(n *node, st *stage, status fuse.Status) {
	fs.mu.Lock()
	l := loss{base: st.base, theirs: n.theirsLocked(), yours: slices.Clone(st.data), why: syscall.Errno(status).Error(), told: true}
	l.path, _ = n.targetLocked()
	unkept := st.dirty && st.err == 0 && (st.conflict == 0 || st.conflictAt != st.changes)
	id, changes := st.conflict, st.changes
	fs.mu.Unlock()
	if !unkept {
		return
	}
	fs.log.Error("not committed", "store", n.store.slug(), "path", l.path, "err", syscall.Errno(status))
	id = n.store.keep(l, id)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	st.conflict, st.conflictAt = id, changes
}
