package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mneme/backend"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/versionlog"
)

// sessionName returns the id that --session gives, or a new one.
func sessionName(given string) (string, error) {
	const longest = 128
	switch {
	case given == "":
		return sessionPrefix + versionlog.NewKey(), nil
	case len(given) > longest || quote.Text(given) != given || strings.Contains(given, " "):
		return "", usagef("--session %q: want at most %d bytes of printable text without spaces", given, longest)
	}
	return given, nil
}

// wantedStore is a store that an agent is to have.
type wantedStore struct {
	ref      string
	readOnly bool
}

func (w wantedStore) String() string {
	if w.readOnly {
		return w.ref + ":ro"
	}
	return w.ref
}

// wantStores reads arguments of the form STORE or STORE:ro.
func wantStores(args []string, readOnly bool) ([]wantedStore, error) {
	var wanted []wantedStore
	for _, arg := range args {
		ref, mode, hasMode := strings.Cut(arg, ":")
		if ref == "" || hasMode && mode != "ro" {
			return nil, usagef("%q: want STORE or STORE:ro; a store is taken as a whole", arg)
		}
		wanted = append(wanted, wantedStore{ref: ref, readOnly: hasMode || readOnly})
	}
	return wanted, nil
}

func allReadOnly(wanted []wantedStore) bool {
	return !slices.ContainsFunc(wanted, func(w wantedStore) bool { return !w.readOnly })
}

// openWanted opens stores for an author, or for reading only.
func openWanted(ctx context.Context, lib *backend.Library, wanted []wantedStore, author *memory.Author) ([]*memory.Store, error) {
	seen := map[string]string{}
	var stores []*memory.Store
	for _, w := range wanted {
		info, err := lib.FindStore(ctx, w.ref)
		if err != nil {
			return nil, err
		}
		if other, ok := seen[info.ID]; ok {
			return nil, usagef("%q and %q are the same store; name it once", other, w.ref)
		}
		seen[info.ID] = w.ref
		if closed := memory.Closed(info); closed != nil && !w.readOnly {
			return nil, fmt.Errorf("store %s: %w; it can be read, as `%s:ro`", info.Slug, closed, w.ref)
		}
		as := author
		if w.readOnly {
			as = nil
		}
		st, err := lib.Open(ctx, info.ID, as)
		if err != nil {
			return nil, err
		}
		stores = append(stores, st)
	}
	return stores, nil
}
