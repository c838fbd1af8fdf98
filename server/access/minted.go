package access

import (
	"sync"
	"time"
)

// How many tokens one server makes with one key within a time, and so how many can be revoked.
const (
	maxTokens  = 10_000
	mintedOnce = time.Hour
)

// minted counts the tokens that each key has made.
type minted struct {
	mu    sync.Mutex // guards the fields below; a leaf
	since time.Time
	byKey map[string]int
}

// take counts one more. It reports false where the key has made maxTokens.
func (m *minted) take(key string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKey == nil || now.Sub(m.since).Abs() >= mintedOnce {
		m.since, m.byKey = now, map[string]int{}
	}
	if m.byKey[key] >= maxTokens {
		return false
	}
	m.byKey[key]++
	return true
}
