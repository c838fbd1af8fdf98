package backend

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"

	"mneme/internal/xdg"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/witness"
)

// witnessDir is the part of the user's state directory that remembers how far
// histories have come.
const witnessDir = "tips"

// watch has the library remember, for this user and on this machine, how far the
// histories of the location have come, if there is a place for it.
func (l *Library) watch(at *Location) {
	state, err := xdg.State()
	if err != nil {
		return
	}
	library := at.URL
	if at.Dir != "" { // one directory may have several names
		if dir, err := filepath.EvalSymlinks(at.Dir); err == nil {
			library = fileURL(dir)
		}
	}
	l.witness = witness.New(filepath.Join(state, witnessDir), library)
	l.SetWitness(watcher{l.witness, l})
}

// watcher is the witness of a library, which knows why an index may be behind.
type watcher struct {
	*witness.Witness
	lib *Library
}

// Check implements memory.Witness.
func (w watcher) Check(ctx context.Context, log versionlog.Log, s versionlog.Store) error {
	err := w.Witness.Check(ctx, log, s)
	if missing := (*witness.MissingError)(nil); errors.As(err, &missing) {
		return w.lib.explain(ctx, missing, s)
	}
	return err
}

// explain returns the error for missing commits of a history. If the index is behind the
// records, nothing is lost, and the error is the backend's.
func (l *Library) explain(ctx context.Context, missing *witness.MissingError, s versionlog.Store) error {
	if behind := l.IndexBehind(ctx, s.ID); behind != nil {
		return behind
	}
	return missing
}

// IndexBehind returns a versionlog.ErrRewritten when the index of a store lacks commits
// of which there are records; nil where it does not, or that cannot be seen.
func (l *Library) IndexBehind(ctx context.Context, storeID string) error {
	if l.parts.reach == nil {
		return nil
	}
	if err := l.parts.reach(ctx, storeID, true); errors.Is(err, versionlog.ErrRewritten) {
		return err
	}
	return nil
}

// CheckSeen returns an error when the history of a store is not the one that this
// machine has seen: a *witness.MissingError, or the versionlog.ErrRewritten of an index
// that is behind its records. Stores that are opened for writing are checked so when they
// are opened.
func (l *Library) CheckSeen(ctx context.Context, s versionlog.Store) error {
	if l.witness == nil {
		return nil
	}
	what, err := l.witness.Missing(ctx, l.log, s)
	if err == nil && what != "" {
		err = l.explain(ctx, &witness.MissingError{Store: s.Slug, What: what}, s)
	}
	return err
}

// CheckReaders is CheckSeen for the stores that are open for reading only, which agents
// are about to trust.
func (l *Library) CheckReaders(ctx context.Context, stores []*memory.Store) error {
	for _, st := range stores {
		if !st.ReadOnly() {
			continue
		}
		if err := l.CheckSeen(ctx, st.Info()); err != nil {
			return fmt.Errorf("open store %s: %w", st.Info().Slug, err)
		}
	}
	return nil
}

// Seen compares a store with this machine's notes about it. missing describes the commit
// that was seen and is not in the history, or has changed; "" is none. changed are the
// parts of the store's description that differ from the notes.
func (l *Library) Seen(ctx context.Context, s versionlog.Store) (missing string, changed []string, err error) {
	if l.witness == nil {
		return "", nil, nil
	}
	if missing, err = l.witness.Missing(ctx, l.log, s); err != nil || missing != "" {
		return missing, nil, err
	}
	for {
		if changed, err = l.witness.Changed(ctx, l.log, s); err != nil || changed == nil {
			return "", nil, err
		}
		now, err := l.log.Store(ctx, s.ID)
		if err != nil || reflect.DeepEqual(now, s) {
			return "", changed, err
		}
		s = now // it was updated meanwhile
	}
}

// Accept has this machine remember a store as it is now, whatever it remembered.
func (l *Library) Accept(ctx context.Context, s versionlog.Store) error {
	if l.witness == nil {
		return nil
	}
	return l.witness.Accept(ctx, l.log, s)
}
