package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"mneme/archive"
	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/internal/quote"
	"mneme/versionlog"
)

// endFlags are the flags of commands that cannot be undone.
type endFlags struct {
	Yes   bool `help:"Do not ask."`
	Force bool `help:"Though the store is mounted on this machine."`
}

type storeArchiveCmd struct {
	Store string `arg:"" help:"Its name or id."`
	endFlags
}

func (c *storeArchiveCmd) Help() string {
	return `An archived store can be read, and mounted with :ro; memories can still be removed from it. There is no way back: on a terminal mneme asks first, elsewhere it wants --yes. A store that is mounted read-write on this machine is left alone without --force.

Example:

    mneme store archive notes --yes`
}

func (c *storeArchiveCmd) Run(ctx context.Context, a *app.App) error {
	return a.WithLibrary(ctx, app.Writing, func(lib *backend.Library) error {
		s, err := lib.FindStore(ctx, c.Store)
		if err != nil {
			return err
		}
		if s.ArchivedAt.IsZero() {
			if err := c.sure(a, s, false, fmt.Sprintf("archiving store %s makes it read-only for ever", s.Slug)); err != nil {
				return err
			}
		}
		if err := lib.ArchiveStore(ctx, s.ID, app.UserActor()); err != nil {
			return err
		}
		if s, err = lib.FindStore(ctx, s.ID); err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(view.NewStore(s))
		}
		a.Printf("Store %s is archived since %s: it can be read, and removed from.\n", quote.Text(s.Slug), term.LocalTime(s.ArchivedAt))
		return nil
	})
}

type storeDeleteCmd struct {
	Store string `arg:"" help:"Its name or id."`
	endFlags
}

func (c *storeDeleteCmd) Help() string {
	return `Nothing of the store can be brought back. On a terminal mneme asks first; elsewhere it wants --yes. A store that is mounted on this machine is left alone without --force. Should a deletion be interrupted, run it again with the store's id and --yes: it removes what is left.

Examples:

    mneme store delete scratch --yes
    mneme store delete memstore_01jz… --yes`
}

func (c *storeDeleteCmd) Run(ctx context.Context, a *app.App) error {
	return a.WithLibrary(ctx, app.Writing, func(lib *backend.Library) error {
		s, err := lib.FindStore(ctx, c.Store)
		missing := err
		if errors.Is(missing, versionlog.ErrNotFound) && c.Yes && versionlog.CheckStoreID(c.Store) == nil {
			s, err = versionlog.Store{ID: c.Store}, nil // something of it may be left
		}
		if err != nil {
			return err
		}
		if missing == nil {
			if err := c.sure(a, s, true, fmt.Sprintf("deleting store %s with its whole history cannot be undone", s.Slug)); err != nil {
				return err
			}
		}
		err = lib.DeleteStore(ctx, s.ID)
		if missing != nil && errors.Is(err, versionlog.ErrNotFound) {
			left, leftErr := hasLeft(lib, s.ID)
			if leftErr != nil || !left {
				return errors.Join(missing, leftErr)
			}
			err = nil
		}
		if err == nil {
			err = errors.Join(lib.Conflicts(s.ID).RemoveAll(), archive.Forget(lib.ImportsDir(), s.ID))
		}
		switch {
		case err != nil:
			return app.AdviseDeletion(err, s.ID)
		case !a.JSON && missing != nil:
			a.Printf("There was no store %s any more; what was left of it is removed.\n", quote.Text(s.ID))
			return nil
		case !a.JSON:
			a.Printf("Store %s is deleted, with its history.\n", quote.Text(s.Slug))
			return nil
		}
		return a.PrintJSON(struct {
			ID   string `json:"id"`
			Type string `json:"type"`
		}{s.ID, "memory_store_deleted"})
	})
}

// hasLeft reports whether this machine keeps something of a deleted store.
func hasLeft(lib *backend.Library, id string) (bool, error) {
	begun, err := archive.HasBegun(lib.ImportsDir(), id)
	if begun || err != nil {
		return begun, err
	}
	_, err = os.Lstat(lib.Conflicts(id).Dir())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// sure asks the caller to confirm the sentence, and makes sure that no mount on this
// machine shows the store. Unless readers is set, mounts that only read it are allowed.
func (f endFlags) sure(a *app.App, s versionlog.Store, readers bool, sentence string) error {
	if !f.Force {
		if err := a.CheckUnmounted(s, readers); err != nil {
			return err
		}
	}
	if f.Yes {
		return nil
	}
	return a.Confirm(sentence, s.Slug)
}
