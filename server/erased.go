package server

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"mneme/forget"
	"mneme/gateway/wire"
	"mneme/memory"
)

// eraser is the server's follower of redactions. Besides what each follower does it closes connections that idle
// when it clears memory, since their buffers have answers. Other connections that were open then end with their
// next answer.
type eraser struct {
	*forget.Follower
	listening atomic.Pointer[http.Server]
}

// newEraser begins to clear memory. Without a machine it keeps no conflicts.
func newEraser(library *memory.Library, machine *forget.Machine, logger *slog.Logger) *eraser {
	e := &eraser{}
	o := forget.FollowerOptions{Library: library, Clear: e.clear, Logger: logger}
	if machine != nil {
		o.Kept = machine.Conflicts
	}
	e.Follower = forget.NewFollower(&o)
	e.Start()
	return e
}

func (e *eraser) clear() {
	if h := e.listening.Load(); h != nil {
		h.SetKeepAlivesEnabled(false) // closes those that idle
		h.SetKeepAlivesEnabled(true)
	}
	wire.Forget()
}

// isOlder reports whether a connection of that time was open when memory was cleared.
func (e *eraser) isOlder(connected time.Time) bool {
	return !connected.IsZero() && connected.Before(e.Cleared())
}
