package dynamolog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"mneme/versionlog"
)

// waiting is how calls of Wait and Next on one store learn of commits. One of
// them looks at the store for all, once per refresh interval.
type waiting struct {
	mu      sync.Mutex    // guards the fields below; taken after the store's, never held during I/O
	changed chan struct{} // closed and replaced when something may have changed
	seen    uint64        // the newest commit that any call found
	looking bool          // whether one of the calls looks
	looked  time.Time     // when one did last
}

// Wait returns when the store has, or may have, a commit above after: at once
// for commits that this Log made or has come upon, else within Options.Refresh.
// All calls on one store together cost one eventually consistent GetItem per
// refresh interval. An error of the backend is returned as it comes; the next
// call does not look before the interval is over.
func (l *Log) Wait(ctx context.Context, storeID string, after uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !isStoreID(storeID) {
		return notFound(storeID)
	}
	w := &l.store(storeID).wait
	timer := time.NewTimer(l.refresh)
	defer timer.Stop()
	for {
		w.mu.Lock()
		if w.seen > after {
			w.mu.Unlock()
			return nil
		}
		changed, left := w.changed, l.refresh-time.Since(w.looked)
		look := left <= 0 && !w.looking
		if look {
			w.looking = true
		}
		w.mu.Unlock()
		if look {
			if err := l.store(storeID).look(ctx); err != nil {
				return err
			}
			continue
		}
		timer.Reset(max(left, time.Millisecond))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-timer.C:
		}
	}
}

// look asks for the tip, and for certainty when the store seems to be gone: one
// that was just made may not be seen yet.
func (s *store) look(ctx context.Context) error {
	started := time.Now()
	var seq uint64
	err := call(ctx, func(ctx context.Context) error {
		i, err := s.log.table.get(ctx, s.id, metaSort, true)
		if err == nil && i == nil {
			i, err = s.log.table.get(ctx, s.id, metaSort, false)
		}
		if err == nil && i == nil {
			err = notFound(s.id)
		}
		if err != nil {
			return err
		}
		m, err := metaOf(i)
		if err == nil {
			seq = m.tip.Seq
		}
		return err
	})
	if errors.Is(err, versionlog.ErrNotFound) {
		s.forget()
	}
	w := &s.wait
	w.mu.Lock()
	w.looking = false
	if ctx.Err() == nil {
		w.looked = started
	}
	w.mu.Unlock()
	if err != nil {
		s.wake() // another may look now
		return err
	}
	s.noticed(seq)
	return nil
}

// noticed says that the store has a commit of that number.
func (s *store) noticed(seq uint64) {
	w := &s.wait
	w.mu.Lock()
	defer w.mu.Unlock()
	if seq > w.seen {
		w.seen = seq
		w.broadcastLocked()
	}
}

func (w *waiting) broadcastLocked() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// wake has all waiters look at the view again. When it is gone, they look at
// the store at once.
func (s *store) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.wait
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.view != nil {
		w.seen = max(w.seen, s.view.meta.tip.Seq)
	} else {
		w.seen, w.looked = 0, time.Time{}
	}
	w.broadcastLocked()
}

// Next returns the commits above after as soon as there is one. It costs what
// Wait does, a Query when others have committed, and nothing for commits of
// this Log.
func (l *Log) Next(ctx context.Context, storeID string, after uint64) ([]*versionlog.Commit, error) {
	s := l.store(storeID)
	for {
		s.mu.Lock()
		if err := s.stopped; err != nil {
			s.mu.Unlock()
			return nil, err
		}
		var known []*versionlog.Commit
		var tip uint64
		loaded, all := s.view != nil, false
		if loaded {
			known, all = s.view.since(after)
			known, tip = slices.Clone(known), s.view.meta.tip.Seq
		}
		s.mu.Unlock()
		var err error
		switch {
		case len(known) > 0:
			return known, nil
		case !loaded:
			err = call(ctx, s.catchUp)
		case !all:
			commits, err := s.erasedCommits(ctx, after)
			if len(commits) > 0 || err != nil {
				return commits, err
			}
			err = pause(ctx, l.refresh)
			if err != nil {
				return nil, err
			}
		default:
			if err = l.Wait(ctx, storeID, max(after, tip)); err == nil {
				err = call(ctx, func(ctx context.Context) error { return s.readSeen(ctx, tip) })
			}
		}
		if err != nil {
			return nil, err
		}
	}
}

// readSeen brings the view from a tip to the newest commit that was noticed since.
func (s *store) readSeen(ctx context.Context, tip uint64) error {
	s.wait.mu.Lock()
	seen := s.wait.seen
	s.wait.mu.Unlock()
	if seen-tip > maxCatchUp || seen < tip {
		return s.catchUp(ctx)
	}
	if err := s.readAhead(ctx, tip, seen); err != nil {
		return err
	}
	s.mu.Lock()
	there := s.view != nil && s.view.meta.tip.Seq >= seen
	s.mu.Unlock()
	if there {
		return nil
	}
	return s.catchUp(ctx) // which waits for rows that are not to be seen yet
}

// erasedCommits returns commits above after from the table, without what redactions among
// them have erased. A redaction that is under way it finishes, or, where it may not, it
// returns what is before.
func (s *store) erasedCommits(ctx context.Context, after uint64) ([]*versionlog.Commit, error) {
	done, readOnly := uint64(0), false // up to where redactions were finished before the page was read
	for {
		commits, err := s.log.pageOfCommits(ctx, s.id, after)
		i := slices.IndexFunc(commits, func(c *versionlog.Commit) bool { return c.Erases() && c.Seq > done })
		if err != nil || i < 0 {
			return commits, err
		}
		if readOnly {
			return commits[:i], nil
		}
		err = call(ctx, func(ctx context.Context) error {
			m, err := s.log.table.meta(ctx, s.id)
			if err != nil {
				return err
			}
			if done = m.erased; done == m.redacted {
				return nil
			}
			return s.awaitErased(ctx)
		})
		if readOnly = errors.Is(err, versionlog.ErrReadOnly); err != nil && !readOnly {
			return nil, err
		}
	}
}

// maxNext is how many commits Next returns at most, which it has to read.
const maxNext = 500

func (l *Log) pageOfCommits(ctx context.Context, storeID string, after uint64) ([]*versionlog.Commit, error) {
	var commits []*versionlog.Commit
	for c, err := range l.Commits(ctx, storeID, after) {
		if err != nil {
			return nil, err
		}
		if commits = append(commits, c); len(commits) == maxNext {
			break
		}
	}
	return commits, nil
}
