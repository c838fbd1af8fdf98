package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"mneme/memory"
	"mneme/versionlog"
	"mneme/witness"
)

// witnessDir is the part of the user's state directory that remembers how far
// histories have come.
const witnessDir = "tips"

// newWitness returns what this machine remembers, for this user, of the library at
// a location; nil where there is no place for it.
func newWitness(at location) *witness.Witness {
	state, err := xdgDir("XDG_STATE_HOME", ".local/state")
	if err != nil {
		return nil
	}
	library := at.String()
	if e, ok := at.(embedded); ok { // one directory may have several names
		if dir, err := filepath.EvalSymlinks(e.dir); err == nil {
			library = embedded{dir}.String()
		}
	}
	return witness.New(filepath.Join(state, "mneme", witnessDir), library)
}

// advisedWitness says what to do when a history is not the one that was seen.
type advisedWitness struct {
	*witness.Witness
	lib *library
}

// Check implements memory.Witness.
func (w advisedWitness) Check(ctx context.Context, log versionlog.Log, s versionlog.Store) error {
	err := w.Witness.Check(ctx, log, s)
	if missing := (*witness.MissingError)(nil); errors.As(err, &missing) {
		return w.lib.advise(ctx, missing, s)
	}
	return err
}

// advise adds to what is missing of a history what to do. Where the index is behind
// the records, nothing is lost, and the backend says what brings it up to them.
func (l *library) advise(ctx context.Context, missing *witness.MissingError, s versionlog.Store) error {
	if behind := l.indexBehind(ctx, s.ID); behind != nil {
		return behind
	}
	return fmt.Errorf("%w; it can be read by commands, and is neither written nor mounted; after going back to a backup, `mneme fsck %s --accept-loss` takes it as it is; docs/BACKUP.md says more", missing, s.Slug)
}

// indexBehind says that the index of a store lacks commits of which there are records;
// nil where it does not, or that cannot be seen.
func (l *library) indexBehind(ctx context.Context, storeID string) error {
	if l.reach == nil {
		return nil
	}
	if err := l.reach(ctx, storeID, true); errors.Is(err, versionlog.ErrRewritten) {
		return err
	}
	return nil
}

// checkReaders refuses to mount a store read-only whose history is not the one that
// this machine has seen: agents would trust what they read. Stores for writing were
// checked when they were opened.
func (l *library) checkReaders(ctx context.Context, stores []*memory.Store) error {
	for _, st := range stores {
		if l.witness == nil || !st.ReadOnly() {
			continue
		}
		what, err := l.witness.Missing(ctx, l.log, st.Info())
		if err == nil && what != "" {
			err = l.advise(ctx, &witness.MissingError{What: what}, st.Info())
		}
		if err != nil {
			return fmt.Errorf("open store %s: %w", st.Info().Slug, err)
		}
	}
	return nil
}
