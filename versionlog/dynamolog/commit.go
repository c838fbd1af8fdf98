package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mneme/internal/awsconf"
	"mneme/versionlog"
)

// errKey says that the view does not know whether a key is in the history.
var errKey = errors.New("the key is to be looked up")

// errJudge says that a proposal makes no commit as far as the view knows. Before
// a caller is told so, the view has to catch up.
var errJudge = errors.New("to be judged on a newer view")

// errRaise says that a proposal makes a commit that an earlier mneme must not meet.
var errRaise = errors.New("the format of the table is to be raised")

// request is a proposal that waits for the committer.
type request struct {
	proposal *versionlog.Proposal
	absent   uint64       // no commit up to this one has the key
	done     chan outcome // has room for the one outcome
	alone    bool         // it must not share a transaction
	fence    uint64       // its contents were there when this was the store's
	raised   bool         // an earlier mneme refuses the table
	gone     bool         // its caller has left; guarded by the store's mutex
}

type outcome struct {
	commit *versionlog.Commit
	err    error
}

// Commit appends what p proposes, in one transaction, and in no other request
// when p is fresh and the view knows the paths; else its key is looked up, in a
// Query and a GetItem. Commits that wait behind one another share a transaction.
// ErrTooLarge means more than 100 rows (a change takes one to three, and the
// transaction three), or more than 390 KB of records. ErrInvalid also means a
// path of more than 1,024 bytes.
//
// An error that is no sentinel comes within about 25 s; then the commit may
// have happened. Keys are remembered for seven days.
func (l *Log) Commit(ctx context.Context, storeID string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	if l.readOnly {
		return nil, versionlog.ErrReadOnly
	}
	if err := validate(p); err != nil {
		return nil, err
	}
	s := l.store(storeID)
	if ids := p.Event.ErasedVersions(); len(ids) > 0 {
		err := s.awaitPayers(ctx, ids)
		if err == nil && isStoreID(storeID) { // for as long as the caller waits, which is a person
			err = s.finishErasing(ctx)
		}
		if err != nil {
			return nil, awsconf.Explain(err)
		}
	}
	var c *versionlog.Commit
	err := call(ctx, func(ctx context.Context) (err error) {
		c, err = s.commit(ctx, p)
		return err
	})
	if err == nil && c.Erases() {
		if err = awsconf.Explain(s.finishErasing(ctx)); err != nil {
			s.eraseLater()
		}
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// validate returns the errors that do not depend on the store.
func validate(p *versionlog.Proposal) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if p.Finished != nil && p.Finished.HasRedacted() {
		return versionlog.ErrErasedHistory
	}
	rows := rowsPerTransaction
	for _, c := range p.Changes {
		if len(c.Path) > maxPath || len(c.To) > maxPath {
			return fmt.Errorf("%w: a path has more than %d bytes", versionlog.ErrInvalid, maxPath)
		}
		rows++ // at least
	}
	if rows > maxRows {
		return fmt.Errorf("%d changes: %w; %s", len(p.Changes), versionlog.ErrTooLarge, roomAdvice)
	}
	return nil
}

func (s *store) commit(ctx context.Context, p *versionlog.Proposal) (*versionlog.Commit, error) {
	if err := s.stoppedBy(); err != nil {
		return nil, err
	}
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	if err := s.agree(ctx); err != nil {
		return nil, err
	}
	absent, known, raised := s.tip(), p.Fresh, false
	for attempt := 0; ; attempt++ {
		if err := backoff(ctx, max(0, attempt-3)); err != nil {
			return nil, err
		}
		if !known {
			var c *versionlog.Commit
			var err error
			if c, absent, err = s.lookUp(ctx, p); c != nil || err != nil {
				return c, err
			}
		}
		if s.isErasing() {
			if err := s.awaitErased(ctx); err != nil {
				return nil, err
			}
		}
		fence, err := s.contentsThere(ctx, p)
		if err != nil {
			return nil, err
		}
		if err := s.fetch(ctx, p); err != nil {
			return nil, err
		}
		c, err := s.submit(ctx, &request{proposal: p, absent: absent, fence: fence, raised: raised, alone: p.Event != nil})
		if errors.Is(err, errRaise) {
			if err := s.log.table.raise(ctx); err != nil {
				return nil, err
			}
			raised, err = true, errUnknown
		}
		if errors.Is(err, errJudge) {
			c, err = s.judge(ctx, p, absent)
		}
		if !errors.Is(err, errUnknown) && !errors.Is(err, errJudge) && !errors.Is(err, errKey) {
			return c, err
		}
		known = !errors.Is(err, errKey)
	}
}

// isErasing reports whether the view knows of a redaction that is not finished.
func (s *store) isErasing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view != nil && s.view.meta.erased != s.view.meta.redacted
}

// tip returns the sequence number at which the view is.
func (s *store) tip() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view == nil {
		return 0
	}
	return s.view.meta.tip.Seq
}

// judge decides about a proposal that makes no commit, on a view that was
// current at a moment after the call began. It returns errJudge when it makes
// one after all, and errUnknown when the view does not know enough.
func (s *store) judge(ctx context.Context, p *versionlog.Proposal, absent uint64) (*versionlog.Commit, error) {
	s.mu.Lock()
	v, reads := s.view, 0
	if v != nil {
		reads = v.reads
	}
	s.mu.Unlock()
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v == nil || s.view != v {
		return nil, errUnknown
	}
	// Facts that other calls have read meanwhile may be newer than the tip, and so of another
	// state than the rest.
	v = v.before(reads)
	if c, err := v.byKey(p, absent); c != nil || err != nil {
		return c, err
	}
	now, own := s.log.clock.Both()
	c, err := versionlog.Build(v, v.meta.Disputed(now, own), v.meta.tip, p, now)
	if err == nil && c.Changes() {
		return nil, errJudge
	}
	return c, err
}

// submit hands a proposal to the committer and waits for the outcome.
func (s *store) submit(ctx context.Context, r *request) (*versionlog.Commit, error) {
	r.done = make(chan outcome, 1)
	s.mu.Lock()
	s.queue = append(s.queue, r)
	select {
	case s.arrived <- struct{}{}:
	default:
	}
	if !s.committing {
		s.committing = true
		s.log.work.Go(s.commitAll)
	}
	s.mu.Unlock()
	select {
	case o := <-r.done:
		return o.commit, o.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	r.gone = true
	s.mu.Unlock()
	select { // the outcome may have come meanwhile
	case o := <-r.done:
		return o.commit, o.err
	default:
		return nil, ctx.Err()
	}
}

// needs is what the view lacks to judge a proposal.
type needs struct {
	heads    map[string]bool
	below    map[string]int // by path: how many of the versions there leave
	memories map[string]bool
	versions map[string]bool
	began    uint64 // the tip when the reads begin
}

func (n *needs) none() bool { return len(n.heads)+len(n.below)+len(n.memories)+len(n.versions) == 0 }

// needs returns what the view lacks to judge p, as far as can be told: whether
// anything lies below a path matters only when nothing lies at it.
func (v *view) needs(p *versionlog.Proposal) *needs {
	n := &needs{heads: map[string]bool{}, below: map[string]int{}, memories: map[string]bool{}, versions: map[string]bool{}, began: v.meta.tip.Seq}
	for _, id := range p.Event.ErasedVersions() {
		n.version(v, id)
	}
	for _, c := range p.Changes {
		target := c.Path
		if c.Action == versionlog.Rename {
			target = c.To
			n.head(v, c.Path)
		}
		if dir, isDir := strings.CutSuffix(c.Path, "/"); isDir && (c.Action == versionlog.Rename || c.Action == versionlog.Remove) {
			n.whatStays(v, p, dir) // whether the directory is empty
		}
		if head := n.head(v, target); head != nil || c.Action == versionlog.Remove {
			continue
		}
		for above := parentOf(target); above != ""; above = parentOf(above) {
			n.head(v, above)
		}
		if n.heads[target] {
			continue
		}
		n.whatStays(v, p, strings.TrimSuffix(target, "/"))
		if c.MemoryID != "" {
			if _, err := v.Newest(c.MemoryID); err != nil {
				n.memories[c.MemoryID] = true
			}
		}
	}
	return n
}

// whatStays notes that the view does not know whether anything below a path stays.
func (n *needs) whatStays(v *view, p *versionlog.Proposal, path string) {
	leave := leaving(p, path)
	if found, err := v.below(path); err != nil || !found.all && len(found.versions) <= leave {
		n.below[path] = leave
	}
}

// version notes which facts about a version to erase the view lacks.
func (n *needs) version(v *view, id string) {
	found, err := v.Version(id)
	if err != nil {
		n.versions[id] = true
		return
	}
	if found == nil {
		return
	}
	if _, err := v.Newest(found.MemoryID); err != nil {
		n.memories[found.MemoryID] = true
	}
}

func (n *needs) head(v *view, path string) *versionlog.Version {
	head, err := v.Head(path)
	if err != nil {
		n.heads[path] = true
	}
	return head
}

// leaving counts the paths below one that a proposal frees.
func leaving(p *versionlog.Proposal, above string) (n int) {
	for _, c := range p.Changes {
		if (c.Action == versionlog.Remove || c.Action == versionlog.Rename) && isBelow(c.Path, above) {
			n++
		}
	}
	return n
}

// commitAll is the committer of a store: it runs while anything waits.
func (s *store) commitAll() {
	for {
		s.linger()
		b := s.take()
		if b == nil {
			return
		}
		if len(b.requests) > 0 {
			s.finish(b)
		}
	}
}

// lingerFor is how long a committer waits for those whom the last transaction
// has just released.
const lingerFor = 2 * time.Millisecond

// linger waits for the writers of the last transaction to come back, if it has
// just ended and there were several: what they bring then shares the next one.
func (s *store) linger() {
	s.mu.Lock()
	expected, left := s.last.size, lingerFor-time.Since(s.last.end)
	s.mu.Unlock()
	if expected < 2 || left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	for {
		s.mu.Lock()
		waiting := len(s.queue)
		s.mu.Unlock()
		if waiting >= expected {
			return
		}
		select {
		case <-s.arrived:
		case <-timer.C:
			return
		}
	}
}

// take builds a batch of the waiting requests. If none waits, it returns nil, and the
// committer ends.
func (s *store) take() *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := newBatch(s.view)
	var later []*request
	full := false
	for _, r := range s.queue {
		switch {
		case r.gone:
		case full || b.keys[r.proposal.Key] || r.alone && len(b.requests) > 0:
			later = append(later, r)
		default:
			o := s.buildLocked(b, r)
			if errors.Is(o.err, errFull) {
				later, full = append(later, r), true
			} else if o != (outcome{}) {
				r.done <- o
			} else if r.alone {
				full = true
			}
		}
	}
	s.queue = later
	if len(s.queue) == 0 && len(b.requests) == 0 {
		s.committing = false
		return nil
	}
	if len(b.requests) > 0 {
		b.seal(s.log.table.name)
	}
	return b
}

// buildLocked adds what a request becomes to a batch. An outcome is one that needs no
// transaction.
func (s *store) buildLocked(b *batch, r *request) outcome {
	if s.stopped != nil {
		return outcome{err: s.stopped}
	}
	if b.view == nil || b.base.fence != r.fence || b.base.erased != b.base.redacted {
		return outcome{err: errUnknown}
	}
	if c, err := b.view.byKey(r.proposal, r.absent); c != nil || err != nil {
		return outcome{c, err}
	}
	now, own := s.log.clock.Both()
	c, err := versionlog.Build(b, b.store.Disputed(now, own), b.tip(), r.proposal, now)
	switch {
	case errors.Is(err, errUnknown):
		return outcome{err: errUnknown}
	case err != nil || !c.Changes():
		return outcome{err: errJudge}
	case c.Erases() && !r.raised:
		return outcome{err: errRaise}
	}
	if err := b.append(r, c); err != nil {
		return outcome{err: err}
	}
	return outcome{}
}

// giveBack puts requests in front of the queue.
func (s *store) giveBack(requests []*request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(requests, s.queue...)
}
