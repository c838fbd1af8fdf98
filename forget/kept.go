package forget

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/spool"
	"mneme/versionlog"
)

// EraseKept erases the copies of versions that a machine keeps apart from log and contents: the kept
// conflicts of all redacted versions of the store, with those in which the request finds something, and
// the writes that killed mounts have left. It names scratch files of running mounts in which the
// request finds something. It returns how much it has found, and the outcome for each place. An error
// says that it could not read the history.
func EraseKept(ctx context.Context, m *Machine, st *memory.Store, r *Request) (n int, places []versionlog.Purged, err error) {
	versions, err := st.RedactedVersions(ctx) // also those of redactions that were cut off here
	if err != nil {
		return 0, nil, err
	}
	note := func(place string, some int, left error) {
		n += some
		places = append(places, purged(fmt.Sprintf("%s (%d)", place, some), left))
	}
	conflicts := m.Conflicts(st.Info().ID)
	erased, left := conflicts.Erase(versions, r.has)
	note("kept conflicts", erased, left)
	removed, left := spool.RemoveSettled(conflicts.Dir(), func(e *spool.Entry) error { return waiting(e, r) })
	note("what killed mounts have left", removed, left)
	if m.EraseLeft != nil {
		some, left := m.EraseLeft(ctx, st.Info().ID, r.has)
		note("contents half written", some, left)
	}
	used, left := scratchOf(ctx, conflicts.Dir(), st.Info().Slug, r)
	if used > 0 || left != nil {
		note("scratch files of running mounts", used, left)
	}
	return n, places, nil
}

// errWaiting says why a redaction leaves what a killed mount has left.
var errWaiting = errors.New("a save that a killed mount has left waits for the next mount of the store; mount it once, and run the command again")

// waiting returns errWaiting if the write e, which a killed mount has left, may hold a text
// to erase. A nil e is a damaged write.
func waiting(e *spool.Entry, r *Request) error {
	if e == nil || r.has(e.Data) || r.has([]byte(e.Path)) {
		return errWaiting
	}
	return nil
}

// wipeTime is how long running mounts have for wiping what is settled in their spools, which they do when
// they follow the redaction.
const wipeTime = 2 * time.Second

// scratchOf returns how many scratch files of running mounts have a text to erase; the
// error names them, and the next step.
func scratchOf(ctx context.Context, dir, slug string, r *Request) (int, error) {
	var used []spool.Entry
	settled, err := 0, error(nil)
	for deadline := time.Now().Add(wipeTime); ; {
		used, settled, err = spool.InUse(dir, r.has)
		if err != nil || settled == 0 || time.Now().After(deadline) || ctx.Err() != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	errs := []error{err}
	for _, e := range used {
		errs = append(errs, fmt.Errorf("%s, of session %s, whose mount runs: remove or rewrite the file there, and run the command again", quote.Name(slug+":"+e.Path), quote.Name(e.Session)))
	}
	if settled > 0 {
		errs = append(errs, fmt.Errorf("%s that a running mount has settled: it wipes them when it follows the redaction, or ends; run the command again then", plural.Of(settled, "scratch file")))
	}
	return len(used) + settled, errors.Join(errs...)
}
