package fusefs

import (
	"time"

	"mneme/versionlog"
)

// Requests says how many requests of a kind the kernel has sent, and how long
// it took to answer them, all together.
type Requests struct {
	Kind  string // as fuse(4) names it: "LOOKUP"
	Count uint64
	Took  time.Duration
}

// Stats are the counters of a mount since it began, and its state. They are
// read one after another, so that under load they may differ by what happened
// in between.
type Stats struct {
	Requests []Requests // of every kind that is counted
	Stores   []StoreStats
	Held     int64  // bytes of memory, for the programs that use the mount
	MaxHeld  int64  // how many it may hold
	Refused  uint64 // calls, since it would have held more
}

// StoreStats are the counters of one attached store.
type StoreStats struct {
	Store       string        // its slug
	Applied     uint64        // every commit up to this sequence number is in the mount
	Commits     uint64        // made through this mount
	Tries       uint64        // to make one
	Took        time.Duration // to end those, all together
	Conflicts   uint64        // that ended such commits
	Degraded    bool          // the log could not be followed when it was last tried
	Uncommitted int           // files that differ from the log
	Memories    int
	Used        versionlog.Usage // of the quota
	Quota       versionlog.Quota // a bound that is 0 is none
}

// Stats returns the counters of the mount.
func (m *Server) Stats() Stats {
	var stats Stats
	for k := range kinds {
		calls := &m.meter.calls[k]
		stats.Requests = append(stats.Requests, Requests{
			Kind: kindNames[k], Count: calls.count.Load(), Took: time.Duration(calls.nanoseconds.Load()),
		})
	}
	for _, s := range m.fs.stores {
		stats.Stores = append(stats.Stores, s.stats())
	}
	m.fs.mu.RLock()
	defer m.fs.mu.RUnlock()
	stats.Held, stats.MaxHeld, stats.Refused = m.fs.budget.held, m.fs.budget.limit, m.fs.budget.refused
	return stats
}

func (s *store) stats() StoreStats {
	s.fs.mu.RLock()
	defer s.fs.mu.RUnlock()
	used, quota := s.usageLocked()
	return StoreStats{
		Used: used, Quota: quota,
		Store: s.slug(), Applied: s.tree.AppliedLocked(), Commits: s.commits.Load(),
		Tries: s.tries.Load(), Took: time.Duration(s.nanoseconds.Load()), Conflicts: s.conflicts.Load(),
		Degraded: s.degraded != nil, Uncommitted: s.tree.CountsLocked().Uncommitted, Memories: s.tree.CountsLocked().Memories,
	}
}
