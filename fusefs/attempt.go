package fusefs

// attempt is what one handle has changed of a stage since another one did, or since a commit. If
// a write through the handle fails, the stage is again what it was before: no program meant to
// leave the rest of a text. Its fields are guarded by fileSystem.mu.
//
//  1. The first change through a handle begins an attempt (beginAttemptLocked). The earlier state
//     is the base, if nothing was uncommitted; else the stage without its newest bytes, if the
//     handle only adds at the end; else a copy.
//  2. A change through another handle begins another attempt. No handle can take back the earlier
//     changes: the other handle's close commits them (SEMANTICS 2).
//  3. A write that fails ends it (failedLocked). The handle is given up if something was taken
//     back, and until it empties the file: the text that it writes next would lack its beginning.
//
// Appended bytes are kept as a conflict then: a log has its lines nowhere else. The source of a
// copy is still there.
type attempt struct {
	by    any // the handle
	began mark
	clean bool // nothing was uncommitted

	copied     bool // the rest is what the stage was
	data       []byte
	wrote      bool
	appendOnly bool
	appended   []byte
}

// bytes is how many it holds.
func (a *attempt) bytes() int64 { return int64(cap(a.data) + cap(a.appended)) }
