package dynamolog

import (
	"context"
	"errors"
	"time"

	"mneme/errkind"
	"mneme/internal/awsconf"
	"mneme/versionlog"
)

// errErasing says that a redaction takes longer than a call waits.
var errErasing = errkind.New(errkind.Unavailable, "versions of the store are being erased; try again in a while")

// awaitErased returns when no redaction is in the states 1 or 2. The erasing runs in the
// background, and is not started again for each call: it may take longer than a call waits.
func (s *store) awaitErased(ctx context.Context) error {
	for {
		m, err := s.log.table.meta(ctx, s.id)
		if err != nil {
			return err
		}
		if m.erased == m.redacted {
			return s.sawErased(ctx, m)
		}
		if s.log.readOnly {
			return versionlog.ErrReadOnly
		}
		s.mu.Lock()
		s.eraseLaterLocked()
		finishing := s.finishing
		s.mu.Unlock()
		select {
		case s.hurry <- struct{}{}:
		default:
		}
		select {
		case <-finishing.attempted:
		case <-ctx.Done():
			return errErasing
		}
		if finishing.err != nil {
			return finishing.err
		}
	}
}

// eraseLater finishes redactions behind the calls, and tries again until it can.
func (s *store) eraseLater() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eraseLaterLocked()
}

func (s *store) eraseLaterLocked() {
	if s.finishing != nil || s.log.readOnly {
		return
	}
	attempt := &finishing{attempted: make(chan struct{})}
	s.finishing = attempt
	s.log.work.Go(func() {
		for {
			err := s.finishErasing(s.log.life)
			ended := err == nil || errors.Is(err, versionlog.ErrNotFound) || s.log.life.Err() != nil
			attempt.err = awsconf.Explain(err)
			next := &finishing{attempted: make(chan struct{})}
			if ended {
				next = nil
			}
			s.mu.Lock()
			s.finishing = next
			s.mu.Unlock()
			close(attempt.attempted)
			if ended {
				return
			}
			s.log.logger.Warn("a redaction is not finished, trying again", "store", s.id, "op", "erase", "err", attempt.err)
			attempt = next
			select {
			case <-time.After(sweepPause):
			case <-s.hurry:
			case <-s.log.closing:
				attempt.err = errErasing
				s.mu.Lock()
				s.finishing = nil
				s.mu.Unlock()
				close(attempt.attempted)
				return
			}
		}
	})
}
