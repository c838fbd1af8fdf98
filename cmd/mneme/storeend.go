package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/term"

	"mneme/memory"
	"mneme/versionlog"
)

type storeArchiveCmd struct {
	Store string `arg:"" help:"Its name or id."`
}

func (c *storeArchiveCmd) Help() string {
	return `An archived store can be read, and mounted with :ro; memories can still be removed from it. There is no way back.

Example:

    mneme store archive notes`
}

func (c *storeArchiveCmd) Run(ctx context.Context, a *app) error {
	return a.withLibrary(ctx, writing, func(lib *memory.Library) error {
		s, err := lib.FindStore(ctx, c.Store)
		if err == nil {
			err = lib.ArchiveStore(ctx, s.ID)
		}
		if err == nil {
			s, err = lib.FindStore(ctx, s.ID)
		}
		if err != nil || !a.json {
			return err
		}
		return a.printJSON(newStoreJSON(s))
	})
}

type storeDeleteCmd struct {
	Store string `arg:"" help:"Its name or id."`
	Yes   bool   `help:"Do not ask."`
}

func (c *storeDeleteCmd) Help() string {
	return `Nothing of the store can be brought back. On a terminal mneme asks first; elsewhere it wants --yes. Should a deletion be interrupted on AWS, run it again with the store's id and --yes: it removes what is left.

Examples:

    mneme store delete scratch --yes
    mneme store delete memstore_01jz… --yes`
}

func (c *storeDeleteCmd) Run(ctx context.Context, a *app) error {
	return a.withConflictsDir(ctx, writing, func(lib *library) error {
		s, err := lib.FindStore(ctx, c.Store)
		missing := err
		if errors.Is(missing, versionlog.ErrNotFound) && c.Yes && strings.HasPrefix(c.Store, "memstore_") {
			s, err = versionlog.Store{ID: c.Store}, nil // something of it may be left
		}
		if err != nil {
			return err
		}
		if !c.Yes {
			if err := a.confirm(s.Slug); err != nil {
				return err
			}
		}
		err = lib.DeleteStore(ctx, s.ID)
		if missing != nil && errors.Is(err, versionlog.ErrNotFound) {
			return missing
		}
		if err == nil {
			err = lib.conflictsOf(s.ID).RemoveAll()
		}
		if err == nil && missing != nil && !a.json {
			a.printf("There was no store %s any more; what was left of it is removed.\n", s.ID)
		}
		if err != nil || !a.json {
			return err
		}
		return a.printJSON(struct {
			ID   string `json:"id"`
			Type string `json:"type"`
		}{s.ID, "memory_store_deleted"})
	})
}

// confirm returns nil when the person at the terminal types the store's name.
func (a *app) confirm(slug string) error {
	if !term.IsTerminal(int(a.in.Fd())) {
		return usagef("deleting store %s with its whole history cannot be undone; --yes says that you want it", slug)
	}
	if _, err := fmt.Fprintf(a.err, "This deletes the store %s with its whole history, for ever.\nType its name to go on: ", slug); err != nil {
		return err
	}
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) != slug {
		return fmt.Errorf("store %s was not deleted", slug)
	}
	return nil
}
