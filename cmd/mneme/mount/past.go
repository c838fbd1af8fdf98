package mount

import (
	"context"
	"time"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/sessions"
	"mneme/history"
	"mneme/memory"
)

// checkAsOf checks the argument of --as-of, together with --keep.
func checkAsOf(asOf string, keep bool) error {
	if asOf == "" {
		return nil
	}
	now := time.Now()
	point, err := history.ParsePoint(asOf, now)
	if err != nil {
		return app.Usagef("--as-of: %v", err)
	}
	if keep && !point.Fixed(now) {
		return app.Usagef("--as-of %s: with --keep, want a sequence number (`mneme log STORE` has them), or a time in the past with its day: another process that takes over must find the same point", asOf)
	}
	return nil
}

// openPast opens stores as of a point, each at its own commit.
func openPast(ctx context.Context, lib *backend.Library, wanted []sessions.WantedStore, asOf string) ([]*memory.Store, error) {
	point, err := history.ParsePoint(asOf, time.Now())
	if err != nil {
		return nil, err
	}
	stores, err := sessions.OpenWanted(ctx, lib, wanted, nil)
	if err != nil {
		return nil, err
	}
	for i, st := range stores {
		seq, err := history.ResolvePoint(ctx, st, point)
		if err != nil {
			return nil, err
		}
		if stores[i], err = lib.OpenAt(ctx, st.Info().ID, seq); err != nil {
			return nil, err
		}
	}
	return stores, nil
}
