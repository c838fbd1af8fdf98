package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"mneme/versionlog"
)

// MayGrow says why nothing but deletions may be written now; nil: it may.
func (s *Store) MayGrow() error {
	if s.mayGrow == nil {
		return nil
	}
	if err := s.mayGrow(); err != nil {
		return fmt.Errorf("store %s: %w", s.info.Slug, err)
	}
	return nil
}

// admit refuses a proposal whose contents are not to be stored: no commit would follow.
func (s *Store) admit(ctx context.Context, p *versionlog.Proposal) error {
	var more versionlog.Usage
	grows := false
	for i := range p.Changes {
		grows = grows || p.Changes[i].Action != versionlog.Remove
		more.Bytes += p.Changes[i].Size
	}
	if !grows {
		return nil
	}
	if err := p.Quota.CheckSession(p.Used, more); err != nil {
		return fmt.Errorf("store %s: %w", s.info.Slug, err)
	}
	if p.Fresh { // of another, the log knows whether it has used its part already
		if err := s.checkStoreQuota(ctx, more); err != nil {
			return fmt.Errorf("store %s: %w", s.info.Slug, err)
		}
	}
	return s.MayGrow()
}

// checkStoreQuota asks the log about the store's own quota, if it is known to have one.
func (s *Store) checkStoreQuota(ctx context.Context, more versionlog.Usage) error {
	if !s.hasQuota.Load() {
		return nil
	}
	now, err := s.log.Store(ctx, s.info.ID)
	if err != nil {
		return err
	}
	tip, err := s.log.Tip(ctx, s.info.ID)
	if err != nil {
		return err
	}
	at, ahead := s.can.Now()
	quota := now.Quota.Disputed(at, at.Add(ahead))
	return quota.CheckStore(tip, at, more)
}

// refused notes the facts about the store in a refusal by the log.
func (s *Store) refused(err error) {
	var over *versionlog.QuotaError
	if errors.As(err, &over) && over.Whose == versionlog.WhoseStore {
		s.hasQuota.Store(true)
	}
}

// tally counts the additions to a store since it was opened. Its methods may be called at
// once from many goroutines.
type tally struct {
	mu       sync.Mutex
	used     versionlog.Usage // except LastHour
	versions [parts]part      // of the last hour, by minute modulo parts
}

// started is when this process began to count.
var started = time.Now()

// uptime is the time since then. It goes on when the clock is set: a rate that was
// reached would otherwise hold until the clock is there again.
func uptime() time.Duration { return time.Since(started) }

// parts are the minutes of an hour, and the seconds of a minute.
const parts = 60

// part is what was counted in one of them.
type part struct {
	at int64 // uptime in minutes or seconds
	n  int64
}

// note counts n more at a time.
func note(counts *[parts]part, at, n int64) {
	p := &counts[uint64(at)%parts] // of a test with a clock of its own, at is negative
	if p.at != at {
		*p = part{at: at}
	}
	p.n += n
}

// sum returns what was counted in the parts up to a time.
func sum(counts *[parts]part, at int64) (n int64) {
	for _, p := range counts {
		if at-p.at < parts {
			n += p.n
		}
	}
	return n
}

// add counts versions that were committed at an uptime.
func (t *tally) add(versions []versionlog.Version, at time.Duration) {
	more := versionlog.UsageOf(versions)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used.Bytes += more.Bytes
	t.used.Memories += more.Memories
	note(&t.versions, int64(at/time.Minute), more.LastHour)
}

// usage returns what had been used at an uptime.
func (t *tally) usage(at time.Duration) versionlog.Usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	used := t.used
	used.LastHour = sum(&t.versions, int64(at/time.Minute))
	return used
}
