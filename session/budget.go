package session

import (
	"fmt"
	"math"
	"sync"

	"mneme/errkind"
)

// ErrOverBudget says that a session has used up its Budget.
var ErrOverBudget = errkind.New(errkind.OverQuota, "the budget is used up")

// Budget bounds the calls of one or several sessions, and the bytes that they read and
// write. A call that does not fit is refused, and costs nothing.
type Budget struct {
	maxCalls int
	maxBytes int64

	mu    sync.Mutex // guards what follows; a leaf
	calls int
	bytes int64
}

// NewBudget returns a budget of so many calls and bytes; 0 is any number.
func NewBudget(calls int, bytes int64) *Budget {
	b := &Budget{maxCalls: calls, maxBytes: bytes}
	if calls == 0 {
		b.maxCalls = math.MaxInt
	}
	if bytes == 0 {
		b.maxBytes = math.MaxInt64
	}
	return b
}

// Reset makes the budget whole again.
func (b *Budget) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls, b.bytes = 0, 0
}

// Used returns what was used since the last Reset.
func (b *Budget) Used() (calls int, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls, b.bytes
}

// use takes calls and bytes out of the budget, or nothing: ErrOverBudget. A nil Budget has
// no bounds.
func (b *Budget) use(calls int, bytes int64) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case calls > b.maxCalls-b.calls:
		return fmt.Errorf("%w: %d calls are allowed", ErrOverBudget, b.maxCalls)
	case bytes > b.maxBytes-b.bytes:
		return fmt.Errorf("%w: %d bytes are allowed, %d are used, and this takes %d", ErrOverBudget, b.maxBytes, b.bytes, bytes)
	}
	b.calls += calls
	b.bytes += bytes
	return nil
}
