// Package forget erases versions wherever something of them is kept: in the log and its contents, in
// caches, in kept conflicts, in what mounts have spooled, and in all these on the machine of a server.
// The command line, the HTTP API and gateways erase through it, and get one receipt.
package forget

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mneme/archive"
	"mneme/cas"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/spool"
	"mneme/versionlog"
)

// Machine is what a machine keeps of the stores of a library, beside log and contents.
type Machine struct {
	Conflicts    func(storeID string) *conflict.Store                              // in whose directory mounts have their spools
	ImportsDir   string                                                            // notes which imports have begun
	EraseOrphans func(ctx context.Context, storeID string) (contents int, _ error) // those of no version; nil: a redaction leaves none
	// EraseLeft removes files of contents that killed processes have left half written. Nil: there are none.
	EraseLeft func(ctx context.Context, storeID string, has func(text []byte) bool) (files int, _ error)
	// Behind has the server behind the library do what EraseKept does. Nil: there is none.
	Behind func(ctx context.Context, storeID string, versions []string, contents []cas.Digest, text string) ([]versionlog.Purged, error)
}

// Request says what is to be erased.
type Request struct {
	Versions []string     // ids; those that are erased already are passed over
	Contents []cas.Digest // of these versions, by which their texts are found where no version is named
	Text     string       // that is looked for in texts and paths of what is kept; "": none
	Reason   string       // which stays in the history, and must not repeat what is erased
}

// has reports whether a text, or a path, is to be erased.
func (r *Request) has(text []byte) bool {
	return r.Text != "" && bytes.Contains(text, []byte(r.Text)) || len(r.Contents) > 0 && slices.Contains(r.Contents, cas.Sum(text))
}

// Redact erases versions of a store for good, as memory.Store.Redact does, and what is kept of them on the
// machine, nil for none. It may be repeated, and then does what was left to do. Beside an error there is a
// receipt where something was erased. Errors: those of memory.Store.Redact. What is left somewhere is no
// error, see Receipt.Left.
func Redact(ctx context.Context, m *Machine, st *memory.Store, r *Request) (*Receipt, error) {
	done, err := st.Redact(ctx, r.Versions, r.Reason)
	if err != nil && (done == nil || len(done.Commits) == 0) {
		return nil, err
	}
	receipt := newReceipt(st, r.Reason, done)
	if m == nil {
		return receipt, err
	}
	if m.EraseOrphans != nil && err == nil {
		n, left := eraseOrphans(ctx, m, st.Info())
		receipt.note(fmt.Sprintf("contents of no version in the bucket (%d)", n), left)
		receipt.Found += n
	}
	n, places, keptErr := EraseKept(context.WithoutCancel(ctx), m, st, r)
	receipt.add(places)
	receipt.Found += n
	if m.Behind != nil {
		behind, behindErr := m.Behind(ctx, st.Info().ID, r.Versions, r.Contents, r.Text)
		receipt.add(behind)
		if behindErr != nil {
			receipt.note("kept conflicts and scratch files on the server's machine", behindErr)
		}
	}
	return receipt, errors.Join(err, keptErr)
}

// LetGo erases what the rule of a store lets go of, as memory.Store.LetGo does. Kept conflicts of these
// versions stay until they expire. Beside an error there is a receipt where something was erased.
func LetGo(ctx context.Context, st *memory.Store, e *memory.Expired, progress func(done, total int)) (*Receipt, error) {
	done, err := st.LetGo(ctx, e, progress)
	if done == nil {
		return nil, err
	}
	r := newReceipt(st, "", done)
	r.Type = "retention"
	return r, err
}

// EraseKept erases what a machine keeps of versions beside log and contents: the kept conflicts of all
// redacted versions of the store, with those in which the request finds something, and what killed mounts
// have left. It names scratch files of running mounts in which the request finds something. It returns how
// much it has found, and what has become of each place. An error says that it could not read the history.
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

// waiting is the error that what a killed mount has left, nil where that is damaged, may be what
// is to be erased.
func waiting(e *spool.Entry, r *Request) error {
	if e == nil || r.has(e.Data) || r.has([]byte(e.Path)) {
		return errWaiting
	}
	return nil
}

// wipeTime is how long running mounts have for wiping what is settled in their spools, which they do when
// they follow the redaction.
const wipeTime = 2 * time.Second

// scratchOf returns how many scratch files of running mounts have what is to be erased; the error names
// them, and says what to do.
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

// eraseOrphans removes the contents that no version has, unless they are those of an import.
func eraseOrphans(ctx context.Context, m *Machine, store versionlog.Store) (int, error) {
	if err := RefuseUnfinished(m.ImportsDir, []versionlog.Store{store}); err != nil {
		return 0, err
	}
	return m.EraseOrphans(ctx, store.ID)
}

// RefuseUnfinished refuses to collect while an import has not ended: its commits have old times,
// and say nothing of when contents were stored.
func RefuseUnfinished(importsDir string, stores []versionlog.Store) error {
	for _, s := range stores {
		begun, err := archive.HasBegun(importsDir, s.ID)
		if err != nil {
			return err
		}
		if begun {
			return fmt.Errorf("%w: an import into store %s has not ended; end it, or delete the store; until then nothing is removed from any store", versionlog.ErrConflict, s.Slug)
		}
	}
	return nil
}
