package backend

import "time"

// CollectOptions are the settings of Library.Collect.
type CollectOptions struct {
	// Grace is how long ago a content must have been stored that is removed. An import
	// that takes longer may have to be run again.
	Grace time.Duration
	// Keep counts only, and removes nothing.
	Keep bool
	// Progress is called with the work done so far; nil: no calls.
	Progress Progress
}

// contents tells how far it has come with contents.
func (o *CollectOptions) contents(done, total int) {
	if o.Progress != nil {
		o.Progress("contents", done, total)
	}
}

// Garbage is what no version of a store needs, and no process.
type Garbage struct {
	Contents  int   // that no version has
	Bytes     int64 // of them
	Pages     int   // of snapshots in a bucket, that no snapshot has
	Conflicts int   // that have expired
	Temporary int   // files that killed processes have left; those of conflicts are not counted
	Left      error // why something of the contents is left where the backend keeps what was removed; nil: nothing is
}
