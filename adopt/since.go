package adopt

import (
	"context"
	"errors"

	"mneme/backend"
	"mneme/memory"
)

// Since is the number of the store's commits after the import.
func (r *Record) Since(ctx context.Context, open Opener) (n uint64, err error) {
	if r.StoreID == "" || !r.Finished {
		return 0, nil
	}
	lib, err := open(ctx, r.URL, backend.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lib.Close()) }()
	return commitsSince(ctx, lib, r)
}

func commitsSince(ctx context.Context, lib *backend.Library, r *Record) (uint64, error) {
	st, err := lib.Open(ctx, r.StoreID, nil)
	if errors.Is(err, memory.ErrNoStore) { // it was deleted
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	tip, err := st.Tip(ctx)
	return tip.Seq - min(tip.Seq, r.Imported.LastSeq), err
}
