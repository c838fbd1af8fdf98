package mcp

import "sync/atomic"

// gauge counts requests at work.
type gauge struct{ number atomic.Int64 }

// take adds one, unless there are so many.
func (g *gauge) take(most int) bool {
	if g.number.Add(1) > int64(most) {
		g.number.Add(-1)
		return false
	}
	return true
}

// leave takes one away.
func (g *gauge) leave() { g.number.Add(-1) }
