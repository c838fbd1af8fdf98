package verify

import (
	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// Options adjust a check; the zero value is the default.
type Options struct {
	// PresenceOnly asks whether blobs are there without reading them. A log that can survey its
	// index is asked for the versions, not for their records, unless Against is given or a blob
	// is missing.
	PresenceOnly bool
	// Salvage finds the bytes of a blob that the store has lost in another
	// place; what it finds is put back. Nil: nothing is changed.
	Salvage func(cas.Digest) ([]byte, bool)
	// Progress is called now and then with how much of a step is done, never
	// twice at once. Nil: nothing is called.
	Progress func(step string, done, total int)
	// Against is a commit that was noted earlier, by its digest and sequence number;
	// number 0 matches any. If the history has it, all records up to it are what they
	// were then; if not, that is a problem. Nil: nothing is compared.
	Against *versionlog.Tip
	// DoIndex is what a person can do about an index that is not what follows from the
	// records. "": that is not said.
	DoIndex string
	// Workers is how many blobs are read at once. 0: 16.
	Workers int
}

// Verification counts the things that a check has looked at.
type Verification struct {
	Commits, Versions, Memories, Blobs int
	Bytes                              int64 // of the blobs that were read
	Problems, Repaired                 int   // Repaired are among Problems
}

// verifier is one check of a store.
type verifier struct {
	store  *memory.Store
	opts   Options
	report func(Problem)
	done   Verification

	tip    versionlog.Tip // as of the beginning
	last   *versionlog.Commit
	replay *replay
	erased erasures
	lost   memory.Gap        // of commits just before the one looked at
	proved bool              // the commit of opts.Against was seen
	inIts  versionlog.Digest // of the commit with its number
}

const adviceRecord = "what it changed cannot be told any more; take the store's files or the log's records from a backup"

func (v *verifier) doIndex() string {
	const truth = "the records are the truth"
	if v.opts.DoIndex == "" {
		return truth
	}
	return truth + ": " + v.opts.DoIndex
}
