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
type advisedWitness struct{ *witness.Witness }

// Check implements memory.Witness.
func (w advisedWitness) Check(ctx context.Context, log versionlog.Log, s versionlog.Store) error {
	err := w.Witness.Check(ctx, log, s)
	if errors.Is(err, versionlog.ErrRewritten) {
		return advise(err, s)
	}
	return err
}

func advise(err error, s versionlog.Store) error {
	return fmt.Errorf("%w; it can be read by commands, and is neither written nor mounted; after going back to a backup, `mneme fsck %s --accept-loss` takes it as it is; docs/BACKUP.md says more", err, s.Slug)
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
			err = advise(fmt.Errorf("%w: %s", versionlog.ErrRewritten, what), st.Info())
		}
		if err != nil {
			return fmt.Errorf("open store %s: %w", st.Info().Slug, err)
		}
	}
	return nil
}
