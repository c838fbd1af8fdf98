// Package forget erases versions wherever something of them is kept, with one receipt for all faces: in log and
// contents by a redaction or by the store's rule, and on a machine in kept conflicts, spools and scratch files,
// its own and that of a server. It uses package memory, kept conflicts and spools; Machine brings what backends
// know. Read Redact first, then erasure.
package forget

import (
	"context"
	"errors"
	"fmt"

	"mneme/memory"
	"mneme/versionlog"
)

// Redact erases versions of a store for good, for a reason that stays in the history: path, content, size and hash,
// contents that no other version has, and copies of the versions that are kept on the machine (nil: none). The
// caches of this process are emptied; other processes empty theirs as they follow the log (Follower). It may be
// repeated: versions that are erased already are skipped, and the work that an earlier call has left is done. With
// an error it also returns a receipt if something was erased. Traces that are left somewhere are no error, see
// Receipt.Left.
//
// Errors: memory.ErrSessionRedacts, memory.ErrReadOnly, versionlog.ErrLiveHead, versionlog.ErrNotFound,
// versionlog.ErrNoRedaction, versionlog.ErrInvalid without a reason.
func Redact(ctx context.Context, m *Machine, st *memory.Store, r *Request) (*Receipt, error) {
	receipt := newReceipt(st, "redaction", r.Reason)
	one := &erasure{st, r.Versions, receipt}
	err := one.erase(ctx, r.Reason, versionlog.StoreRedacted, func(int) {})
	if err != nil && len(receipt.Sequence) == 0 {
		return nil, err
	}
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

// eraseOrphans removes the contents that no version has, unless they are those of an import.
func eraseOrphans(ctx context.Context, m *Machine, store versionlog.Store) (int, error) {
	if err := RefuseUnfinished(m.Importing, []versionlog.Store{store}); err != nil {
		return 0, err
	}
	return m.EraseOrphans(ctx, store.ID)
}

// RefuseUnfinished refuses to collect while an import has not ended: its commits have old times,
// and say nothing of when contents were stored.
func RefuseUnfinished(importing func(storeID string) (bool, error), stores []versionlog.Store) error {
	for _, s := range stores {
		begun, err := importing(s.ID)
		if err != nil {
			return err
		}
		if begun {
			return fmt.Errorf("%w: an import into store %s has not ended; end it, or delete the store; until then nothing is removed from any store", versionlog.ErrConflict, s.Slug)
		}
	}
	return nil
}
