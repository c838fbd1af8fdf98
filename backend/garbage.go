package backend

import (
	"time"

	"mneme/errkind"
)

// ErrNoCollection says that a backend removes no contents that no version has.
var ErrNoCollection = errkind.New(errkind.Unsupported, "contents that no version has are removed from embedded stores only, as yet")

// CollectOptions are the settings of Library.Collect.
type CollectOptions struct {
	// Grace is how long ago a content must have been stored that is removed. An import
	// that takes longer may have to be run again.
	Grace time.Duration
	// Keep counts only, and removes nothing.
	Keep bool
	// Progress is called with how far it has come; nil: nobody is told.
	Progress Progress
}

// Garbage is what no version of a store needs, and no process.
type Garbage struct {
	Contents  int   // that no version has
	Bytes     int64 // of them
	Conflicts int   // that have expired
	Temporary int   // files that killed processes have left; those of conflicts are not counted
}
