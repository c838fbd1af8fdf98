package versionlog

import (
	"slices"
	"time"
)

// Filter takes some of the commits of a store: those of which all holds that it asks
// for. A field that is zero asks for nothing.
type Filter struct {
	Session  string
	ActorID  string
	From, To time.Time // made in between, or then
	Op       Op        // of one of the versions,
	MemoryID string    // which is of that memory
}

// Takes reports whether the filter takes a commit.
func (f *Filter) Takes(c *Commit) bool {
	switch {
	case f.Session != "" && c.Session != f.Session, f.ActorID != "" && c.Actor.ID != f.ActorID,
		!f.From.IsZero() && c.Time.Before(f.From), !f.To.IsZero() && c.Time.After(f.To):
		return false
	}
	return f.Op == "" && f.MemoryID == "" || slices.ContainsFunc(c.Versions, func(v Version) bool {
		return (f.Op == "" || v.Op == f.Op) && (f.MemoryID == "" || v.MemoryID == f.MemoryID)
	})
}
