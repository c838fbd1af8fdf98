package fusedev

import (
	"syscall"
	"time"
)

// patience is how long a reader polls for the next request before it sleeps. grep works for
// some 20 µs between two requests; waking takes as long, on virtual machines twice that. If
// the last request took longer to come, polling is not worthwhile.
const patience = 50 * time.Microsecond

// look returns the length of the next request, or EAGAIN if the caller should sleep until
// it comes. Other threads with work for this processor go first.
func (s *Server) look(b *buffers) (int, error) {
	last := s.now()
	if s.crowd.avoided(last) {
		return 0, syscall.EAGAIN
	}
	for until := last + patience; ; {
		n, err := s.try(b)
		if err != syscall.EAGAIN {
			return n, err
		}
		_, _, _ = syscall.Syscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) // not raw: it may take long
		now := s.now()
		if now-last > crowded {
			s.crowd.met(now)
			return 0, syscall.EAGAIN
		}
		if now > until {
			s.eager.Store(false)
			return 0, syscall.EAGAIN
		}
		last = now
	}
}

// A reader that yields the processor and does not get it back within crowded shares it with
// a thread that computes. While it is awake it waits for its turn, for milliseconds, but
// the scheduler prefers a thread that has slept. So no reader polls for a while, which is
// the longer the sooner this happens again.
const (
	crowded    = 250 * time.Microsecond
	pauseLeast = 10 * time.Millisecond
	pauseMost  = time.Second
)

// crowd tells when not to look.
type crowd struct {
	until, pause time.Duration // since the server was made
}

func (c *crowd) avoided(now time.Duration) bool { return now < c.until }

func (c *crowd) met(now time.Duration) {
	if now-c.until > c.pause {
		c.pause = pauseLeast
	} else {
		c.pause = min(max(2*c.pause, pauseLeast), pauseMost)
	}
	c.until = now + c.pause
}
