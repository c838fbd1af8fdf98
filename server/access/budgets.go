package access

import (
	"sync"
	"time"

	"mneme/session"
)

// budgets are what is left to the tokens that were seen.
type budgets struct {
	mu      sync.Mutex
	byToken map[string]*tokenBudget
	sweep   time.Time // when those that have expired are removed next
}

type tokenBudget struct {
	budget *session.Budget
	until  time.Time
}

// of returns the budget of a token, which has so many calls and bytes; nil: it has no bound.
func (b *budgets) of(id string, calls int, bytes int64, until, now time.Time) *session.Budget {
	if calls == 0 && bytes == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byToken == nil {
		b.byToken = map[string]*tokenBudget{}
	}
	if now.After(b.sweep) {
		for id, one := range b.byToken {
			if now.After(one.until) {
				delete(b.byToken, id)
			}
		}
		b.sweep = now.Add(time.Minute)
	}
	one := b.byToken[id]
	if one == nil {
		one = &tokenBudget{session.NewBudget(calls, bytes), until}
		b.byToken[id] = one
	}
	return one.budget
}
