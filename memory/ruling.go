package memory

import (
	"sync"
	"time"
)

// ruling is the state of a library for Ruled.
type ruling struct {
	offered    sync.Map // ids of stores that are not hidden, which they stay
	followings followings
	fresh      freshness
	unclaimed  unclaimed
}

// freshness is up to which commit the caches of stores are free of erased contents, for
// callers that ask for contents by their digests and do not follow stores.
type freshness struct {
	opened time.Time // nothing was read before

	mu     sync.Mutex // guards the fields below
	stores map[string]fresh
}

// fresh is the state of the caches of one store.
type fresh struct {
	until uint64    // nothing that commits up to it have erased is there
	again time.Time // until when they may get it again, while a redaction is under way; zero: it is over
}
