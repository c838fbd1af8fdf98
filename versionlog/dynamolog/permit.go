package dynamolog

import (
	"errors"
	"time"
)

var errTooSlow = errors.New("there was no more time to do it safely; run it once more")

// permitFor returns what says until when something may be sent that begins now. A clock on
// the wall may be set, and the other one stands still while a machine sleeps: it goes by both.
func permitFor(clock func() time.Time, d time.Duration) func() error {
	began := clock()
	return func() error {
		now := clock()
		if now.Sub(began) >= d || now.Round(0).Sub(began.Round(0)) >= d {
			return errTooSlow
		}
		return nil
	}
}
