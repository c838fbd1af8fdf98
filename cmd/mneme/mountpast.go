package main

import (
	"bytes"
	"context"
	"time"

	"mneme/backend"
	"mneme/cmd/mneme/term"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/versionlog"
)

// checkAsOf checks the argument of --as-of, beside --keep.
func checkAsOf(asOf string, keep bool) error {
	if asOf == "" {
		return nil
	}
	now := time.Now()
	point, err := memory.ParsePoint(asOf, now)
	if err != nil {
		return usagef("--as-of: %v", err)
	}
	if keep && !point.Fixed(now) {
		return usagef("--as-of %s: with --keep, want a sequence number (`mneme log STORE` has them), or a time in the past with its day: another process that takes over must find the same point", asOf)
	}
	return nil
}

// openPast opens stores as they were at a point, each at its own commit.
func openPast(ctx context.Context, lib *backend.Library, wanted []wantedStore, asOf string) ([]*memory.Store, error) {
	point, err := memory.ParsePoint(asOf, time.Now())
	if err != nil {
		return nil, err
	}
	stores, err := openWanted(ctx, lib, wanted, nil)
	if err != nil {
		return nil, err
	}
	for i, st := range stores {
		seq, err := st.ResolvePoint(ctx, point)
		if err != nil {
			return nil, err
		}
		if stores[i], err = lib.OpenAt(ctx, st.Info().ID, seq); err != nil {
			return nil, err
		}
	}
	return stores, nil
}

// eventLine is a commit as a line of .mneme/events, which is that of `mneme log --json`.
func eventLine(c *versionlog.Commit) ([]byte, error) {
	var line bytes.Buffer
	err := term.WriteJSON(&line, jsonview.NewCommit(c))
	return line.Bytes(), err
}
