package backend

import (
	"sync"
	"time"
)

// For how long it is known how much of a disk is free, if that is so much more than what is kept:
// more than all who write to it could take meanwhile. To ask takes as long as a fortieth of a save.
const (
	spaceKnownFor = 100 * time.Millisecond
	ampleSpace    = 1 << 30
)

// knownSpace is what a disk had free when it was last asked.
type knownSpace struct {
	mu          sync.Mutex // guards what follows
	free, total int64
	at          time.Time
}

// isAmple reports whether far more is free, without doubt, than what reserveOf keeps of such a disk.
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
