package session

import (
	"fmt"
	"math"
	"sync"

	"mneme/errkind"
)

// ErrOverBudget says that a session has used up its Budget.
var ErrOverBudget = errkind.New(errkind.OverQuota, "the budget is used up")

// BudgetError says which bound of a Budget a call would pass. It is an ErrOverBudget, under
// errors.Is.
type BudgetError struct {
	What        string // "calls" or "bytes"
	Limit, Used int64
	More        int64 // that the call would take
}

// Error names the bound.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("%v: %d %s are allowed, %d are used, and this takes %d", ErrOverBudget, e.Limit, e.What, e.Used, e.More)
}

// Unwrap returns ErrOverBudget.
func (e *BudgetError) Unwrap() error { return ErrOverBudget }

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

// Left returns what may still be used: math.MaxInt calls and math.MaxInt64 bytes where
// there is no bound. A nil Budget has none.
func (b *Budget) Left() (calls int, bytes int64) {
	calls, bytes = math.MaxInt, math.MaxInt64
	if b == nil {
		return calls, bytes
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.maxCalls < calls {
		calls = b.maxCalls - b.calls
	}
	if b.maxBytes < bytes {
		bytes = b.maxBytes - b.bytes
	}
	return calls, bytes
}

// Take takes calls and bytes out of the budget, or nothing: a *BudgetError. A nil Budget
// has no bounds.
func (b *Budget) Take(calls int, bytes int64) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case calls > b.maxCalls-b.calls:
		return &BudgetError{What: "calls", Limit: int64(b.maxCalls), Used: int64(b.calls), More: int64(calls)}
	case bytes > b.maxBytes-b.bytes:
		return &BudgetError{What: "bytes", Limit: b.maxBytes, Used: b.bytes, More: bytes}
	}
	b.calls += calls
	b.bytes += bytes
	return nil
}

// Spend takes bytes that were used already, also more than are left: then none are. A nil
// Budget has no bounds.
func (b *Budget) Spend(bytes int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes += min(bytes, b.maxBytes-b.bytes)
}
