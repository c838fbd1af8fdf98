package witness

import "mneme/versionlog"

// format is that of the files.
const format = 1

// memo is what a file remembers of a store.
type memo struct {
	Format  int                  `json:"format"`
	Library string               `json:"library"` // which the store is in
	Seq     uint64               `json:"seq"`     // of the newest commit that was seen; 0: none
	Digest  versionlog.Digest    `json:"digest"`  // of that commit
	Store   versionlog.StoreJSON `json:"store"`   // as it was when it was opened last
	// Described is the newest commit then; 0 in files of a mneme that knew no events.
	Described uint64 `json:"described,omitempty"`
}

func (w *Witness) memo(tip versionlog.Tip, s versionlog.Store) memo {
	return memo{Format: format, Library: w.library, Seq: tip.Seq, Digest: tip.Digest, Store: *versionlog.NewStoreJSON(s), Described: tip.Seq}
}
