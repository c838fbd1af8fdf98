// Package sessions opens the stores of a process that serves a session. It holds the code
// that mount, mcp, tool, note and plugin share: their stores, the flags for shared writes, the
// credential's rights, the claim, and the memory of the process. It uses app and view. Read
// wanted.go first.
package sessions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/view"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/versionlog"
)

// SessionName returns the id that --session gives, or a new one.
func SessionName(given string) (string, error) {
	const longest = 128
	switch {
	case given == "":
		return view.SessionPrefix + versionlog.NewKey(), nil
	case len(given) > longest || quote.Text(given) != given || strings.Contains(given, " "):
		return "", app.Usagef("--session %q: want at most %d bytes of printable text without spaces", given, longest)
	}
	return given, nil
}

// WantedStore is a store for an agent.
type WantedStore struct {
	Ref      string
	ReadOnly bool
}

func (w WantedStore) String() string {
	if w.ReadOnly {
		return w.Ref + ":ro"
	}
	return w.Ref
}

// WantStores reads arguments of the form STORE or STORE:ro.
func WantStores(args []string, readOnly bool) ([]WantedStore, error) {
	var wanted []WantedStore
	for _, arg := range args {
		ref, mode, hasMode := strings.Cut(arg, ":")
		if ref == "" || hasMode && mode != "ro" {
			return nil, app.Usagef("%q: want STORE or STORE:ro; a store is taken as a whole", arg)
		}
		wanted = append(wanted, WantedStore{Ref: ref, ReadOnly: hasMode || readOnly})
	}
	return wanted, nil
}

// AllReadOnly reports whether every store is read-only.
func AllReadOnly(wanted []WantedStore) bool {
	return !slices.ContainsFunc(wanted, func(w WantedStore) bool { return !w.ReadOnly })
}

// OpenWanted opens stores for an author, or read-only.
func OpenWanted(ctx context.Context, lib *backend.Library, wanted []WantedStore, author *memory.Author) ([]*memory.Store, error) {
	seen := map[string]string{}
	var stores []*memory.Store
	for _, w := range wanted {
		info, err := lib.FindStore(ctx, w.Ref)
		if err != nil {
			return nil, err
		}
		if other, ok := seen[info.ID]; ok {
			return nil, app.Usagef("%q and %q are the same store; name it once", other, w.Ref)
		}
		seen[info.ID] = w.Ref
		if closed := memory.Closed(info); closed != nil && !w.ReadOnly {
			return nil, fmt.Errorf("store %s: %w; it can be read, as `%s:ro`", info.Slug, closed, w.Ref)
		}
		as := author
		if w.ReadOnly {
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
