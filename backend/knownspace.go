package backend

import (
	"sync"
	"time"
)

// For spaceKnownFor the free space of a disk is not asked for again, if it exceeds the
// reserve by ampleSpace: all writers to the disk could not take as much meanwhile. Asking
// takes a fortieth of the time of a save.
const (
	spaceKnownFor = 100 * time.Millisecond
	ampleSpace    = 1 << 30
)

// knownSpace is what a disk had free when it was last asked.
type knownSpace struct {
	mu          sync.Mutex // guards the fields below
	free, total int64
	at          time.Time
}

// isAmple reports whether, without doubt, far more is free than the reserve that reserveOf
// returns for such a disk.
func (k *knownSpace) isAmple(reserveOf func(total int64) int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.at) < spaceKnownFor && k.free-reserveOf(k.total) >= ampleSpace
}

func (k *knownSpace) note(free, total int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free, k.total, k.at = free, total, time.Now()
}
