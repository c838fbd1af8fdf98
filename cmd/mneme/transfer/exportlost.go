package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mneme/backend"
	"mneme/cas"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
)

// adviseLost is the advice about a content that is lost, or was erased meanwhile.
func adviseLost(err error, slug string) error {
	if errors.Is(err, cas.ErrNotFound) || errors.Is(err, cas.ErrCorrupt) {
		return app.Advised(fmt.Errorf("%w; `mneme fsck %s` names all that is lost and what to do, --keep-going leaves it out", err, slug))
	}
	if errors.Is(err, memory.ErrRedacted) {
		return fmt.Errorf("%w; it was erased while the export was written, so export again", err)
	}
	return err
}

// lostIn names the lost contents of a store, next to a bar.
func lostIn(a *app.App, store string, bar *term.Progress) func(versionlog.Version) {
	return func(v versionlog.Version) {
		bar.Clear()
		warnLost(a, store, v)
	}
}

// warnLost names a content that a store has lost.
func warnLost(a *app.App, store string, v versionlog.Version) {
	a.Warnf("%s: content %v is lost; it is that of version %s of %s", store, v.Digest, v.ID, v.Path)
}

// withStoreAt opens the store that ref names for reading, at a point, and closes it after
// do. "" is the newest point.
func withStoreAt(ctx context.Context, a *app.App, ref, at string, do func(*backend.Library, *memory.Store) error) error {
	var point history.Point
	if at != "" {
		var err error
		if point, err = history.ParsePoint(at, time.Now()); err != nil {
			return err
		}
	}
	return a.WithLibrary(ctx, app.Reading, func(lib *backend.Library) error {
		st, err := app.OpenStore(ctx, lib, ref, app.Reading)
		if err != nil {
			return err
		}
		if at != "" {
			seq, err := history.ResolvePoint(ctx, st, point)
			if err != nil {
				return err
			}
			if st, err = lib.OpenAt(ctx, st.Info().ID, seq); err != nil {
				return err
			}
		}
		return do(lib, st)
	})
}
