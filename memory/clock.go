package memory

import (
	"context"
	"fmt"
	"time"

	"mneme/errkind"
	"mneme/versionlog"
)

// ErrClock says that ages cannot be judged, since a clock is wrong.
var ErrClock = errkind.New(errkind.Unavailable, "ages cannot be judged by the clock of this machine")

// ErrClockDoubt is an ErrClock for which the clock of this machine may be right.
var ErrClockDoubt = fmt.Errorf("%w, which may be wrong", ErrClock)

// maxIdle is how long nothing was committed to any store before a clock is in doubt that
// nothing else confirms.
const maxIdle = 30 * 24 * time.Hour

// Clock returns the time by the clock that all who write to the library have in common, and how
// far that of this machine is ahead of it; 0: they agree.
func (l *Library) Clock() (now time.Time, ahead time.Duration) {
	can := l.log.Capabilities()
	return can.Now()
}

// CheckClock returns why the clock of this machine cannot say how old versions are: ErrClock; nil:
// it can. On one machine all clocks may be wrong together. There it also checks the newest
// commits: ErrClockDoubt if they are ahead of the clock, or if all of them are long ago.
func (l *Library) CheckClock(ctx context.Context) error {
	now, ahead := l.Clock()
	if ahead != 0 {
		return fmt.Errorf("%w: it is %s that of the stores", ErrClock, Apart(ahead))
	}
	if !l.log.Capabilities().Near {
		return nil
	}
	var newest time.Time
	for s, err := range l.log.Stores(ctx, "") {
		if err != nil {
			return err
		}
		tip, err := l.log.Tip(ctx, s.ID)
		if err != nil {
			return err
		}
		if tip.Time.After(newest) {
			newest = tip.Time
		}
	}
	switch {
	case newest.IsZero():
		return nil
	case newest.Sub(now) > versionlog.MaxSkew:
		return fmt.Errorf("%w: the newest version is of %s", ErrClockDoubt, newest.Format(time.RFC3339))
	case now.Sub(newest) > maxIdle:
		return fmt.Errorf("%w: the newest version of all stores is %s old", ErrClockDoubt, days(now.Sub(newest)))
	}
	return nil
}

// Apart says how far a clock is ahead of another one, or behind it.
func Apart(ahead time.Duration) string {
	if ahead < 0 {
		return days(-ahead) + " behind"
	}
	return days(ahead) + " ahead of"
}

// days writes a duration as a person says it.
func days(d time.Duration) string {
	if d < 48*time.Hour {
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%d days", d.Round(24*time.Hour)/(24*time.Hour))
}
