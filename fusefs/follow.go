package fusefs

import (
	"context"
	"time"

	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// begin notes where the follower has to begin. An error of the store, or of the way to it, is
// known then.
func (s *store) begin(ctx context.Context) error {
	if err := s.loadPrivate(); err != nil {
		return err
	}
	tip, err := s.tip(ctx)
	if err != nil {
		return err
	}
	s.fs.mu.Lock()
	s.used = usage{tip, s.memory.Info()}
	s.fs.mu.Unlock()
	s.tree.BeginAt(tip)
	return nil
}

// follow applies what other sessions commit, until ctx ends. While the log
// cannot be reached it tries again every second. It ends when the history is
// another.
func (s *store) follow(ctx context.Context) {
	for {
		err := s.memory.Follow(ctx, s.tree.Shown(), func(c *versionlog.Commit) error {
			if err := s.rewrittenBy(); err != nil {
				return err
			}
			s.followOne(ctx, c)
			if c.Erases() && s.spool != nil {
				if err := s.spool.Wipe(); err != nil {
					s.fs.log.Error("erasing what is settled in the spool", "store", s.slug(), "err", err)
				}
			}
			return ctx.Err()
		})
		if s.noteRewritten(err); s.rewrittenBy() != nil {
			return
		}
		for err != nil { // until the log answers
			if ctx.Err() != nil {
				return
			}
			if was := s.setDegraded(err); was == nil || was.Error() != err.Error() {
				s.fs.log.Error("following the log", "store", s.slug(), "err", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			// Following says nothing as long as no session commits.
			_, err = s.memory.Tip(ctx)
		}
		s.setDegraded(nil)
	}
}

// setDegraded notes why the log cannot be followed, and returns what it was. Once it can be again, it says
// no more that a write failed meanwhile.
func (s *store) setDegraded(err error) (was error) {
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	if was, s.degraded = s.degraded, err; err == nil && was != nil {
		s.unsaved.Store(nil)
	}
	return was
}

// followOne brings the next commit of the log into the tree, unless ctx ends. One that this
// mount makes itself is left to the request that makes it.
func (s *store) followOne(ctx context.Context, c *versionlog.Commit) {
	defer s.fs.returning.follower.Met(s.memory, c)
	recounted := s.recount(ctx, c)
	var met session.Met
	for {
		if !s.session.AwaitOwn(ctx, c.Key) {
			return
		}
		s.fs.mu.Lock()
		if met = s.session.Meet(c); !met.Again {
			break
		}
		s.fs.mu.Unlock()
	}
	defer s.fs.mu.Unlock()
	defer s.settleBeside()
	switch {
	case met.Own:
	case met.Text != nil: // its reply was lost, and no request has asked again yet
		t := met.Text.(*stagedText)
		if v := &c.Versions[0]; v.Redacted() {
			t.erasedLocked(met.Draft, c)
		} else {
			t.committedLocked(met.Draft, v)
		}
		if stageOf(t.n) != t.st || t.st.err != 0 { // given up: the kernel has what was before it
			s.fs.notify.contentLocked(t.n)
		}
	default:
		s.tree.ApplyLocked(c)
		if met.Named {
			//archtest:locked Adopt calls it under the lock
			s.session.Adopt(c, func(path string) *memory.Head {
				if n := s.tree.FindMemoryLocked(path); n != nil {
					return n.HeadLocked()
				}
				return nil
			})
		}
	}
	s.useLocked(c, recounted)
	if c.Erases() {
		s.forgetPastLocked()
	}
	s.degraded = nil
	s.tree.ShownLocked(c)
}

// catchUp waits until the tree shows every commit that is in the log now, but
// not for long: what follows checks the log again when it commits. The error is
// that of a log which cannot be asked, or of ctx.
func (s *store) catchUp(ctx context.Context) error {
	tip, err := s.tip(ctx)
	if err != nil || s.tree.Shown().Seq >= tip.Seq {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	_ = s.tree.AwaitApplied(patience, tip.Seq)
	return ctx.Err()
}

// caughtUpLocked reports whether the tree is known to show every commit that is in the
// log now, without asking the log.
func (s *store) caughtUpLocked() bool {
	tip, known := s.memory.KnownTip()
	return known && tip.ArchivedAt.IsZero() && s.tree.AppliedLocked() >= tip.Seq
}
