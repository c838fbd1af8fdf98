package memory

import (
	"sync"
	"time"
)

// ruling is what a library remembers for Ruled.
type ruling struct {
	offered    sync.Map // ids of stores that are not hidden, which they stay
	followings followings
	fresh      freshness
	unclaimed  unclaimed
}

// freshness is up to where the caches of stores have forgotten what was erased, for callers who
// ask for contents by their digests and follow nothing.
type freshness struct {
	opened time.Time // nothing was read before

	mu     sync.Mutex // guards what follows
	stores map[string]fresh
}

// fresh is what is known of the caches of one store.
type fresh struct {
	until uint64    // nothing that commits up to it have erased is there
	again time.Time // until when they may get it again, while a redaction is under way; zero: it is over
}
