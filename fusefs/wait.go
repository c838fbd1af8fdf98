package fusefs

import (
	"sync"
	"time"
)

// waitFor waits until done holds, but not longer than patience. Whoever makes
// it hold broadcasts cond. Caller holds cond.L.
func waitFor(cond *sync.Cond, patience time.Duration, done func() bool) {
	start := time.Now() // before the timer, which broadcasts once: it must not come too early
	timer := time.AfterFunc(patience, func() {
		cond.L.Lock()
		defer cond.L.Unlock()
		cond.Broadcast()
	})
	defer timer.Stop()
	for !done() && time.Since(start) < patience {
		cond.Wait()
	}
}
