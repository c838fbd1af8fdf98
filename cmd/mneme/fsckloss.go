package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mneme/memory"
	"mneme/versionlog"
)

// problemLoss is what was acknowledged and is not there.
const problemLoss memory.ProblemKind = "loss"

func (l loss) problem() memory.Problem {
	return memory.Problem{
		Kind: problemLoss, Subject: "history", What: l.what,
		Do: "copy the directory again with `mneme backup`, go back to a backup, or go on without what is missing: `mneme fsck --accept-loss`",
	}
}

// losses returns what is missing of the stores that are to be checked, unless it is
// to be missed no more.
func (c *fsckCmd) losses(ctx context.Context, a *app, at location) ([]loss, error) {
	lost, kept, err := at.losses(ctx, c.AcceptLoss)
	if err != nil {
		return nil, err
	}
	if !c.AcceptLoss {
		return slices.DeleteFunc(lost, func(l loss) bool {
			return c.Store != "" && l.store.Slug != "" && c.Store != l.store.Slug && c.Store != l.store.ID
		}), nil
	}
	for _, l := range lost {
		if err := a.printAccepted(l, kept); err != nil {
			return nil, err
		}
	}
	return nil, a.out.Flush()
}

// witnessed compares a store with what this machine has seen of it, and reports the
// difference, or accepts it with --accept-loss. A loss that the backend has told of
// is not reported again.
func (c *fsckCmd) witnessed(ctx context.Context, a *app, at location, lib *library, s versionlog.Store, lost []loss, report func(memory.Problem)) error {
	w := newWitness(at)
	if w == nil {
		return nil
	}
	missing, err := w.Missing(ctx, lib.log, s)
	if err != nil {
		return err
	}
	why := "you went back to a backup"
	changed, err := w.Changed(ctx, lib.log, s)
	if err != nil {
		return err
	}
	if missing == "" && changed != nil {
		why += ", or an earlier mneme updated it, which did not write that into its history"
		missing = "this machine has seen it with another " + strings.Join(changed, ", ")
	}
	var behind error
	if missing != "" {
		behind = lib.indexBehind(ctx, s.ID)
	}
	twice := slices.ContainsFunc(lost, func(l loss) bool { return l.store.ID == s.ID })
	switch {
	case missing == "" || twice:
	case behind != nil: // nothing is to be accepted
		report(memory.Problem{Kind: problemLoss, Subject: "store", What: missing, Do: "the records say something else than the index: " + lib.doIndex})
	case c.AcceptLoss:
		return errors.Join(w.Accept(ctx, lib.log, s), a.printAccepted(loss{s, missing}, ""), a.out.Flush())
	default:
		report(memory.Problem{
			Kind: problemLoss, Subject: "store", What: missing,
			Do: fmt.Sprintf("if %s, that is why, and `mneme fsck %s --accept-loss` takes it as it is; else somebody has changed it behind mneme: compare it with a backup", why, s.Slug),
		})
	}
	return nil
}

func (a *app) printAccepted(l loss, kept string) error {
	if a.json {
		return a.printJSON(struct {
			Type  string `json:"type"`
			Store string `json:"store"`
			Loss  string `json:"loss"`
			Kept  string `json:"kept,omitempty"`
		}{"accepted", l.name(), l.what, kept})
	}
	where := ""
	if kept != "" {
		where = "; log.db-wal as it was is kept in " + kept
	}
	a.printf("%s: %s: %s\n", printable(l.name()), a.paint(yellow, "accepted"), printable(l.what+where))
	return nil
}

// name is that of the store, or its id.
func (l loss) name() string {
	if l.store.Slug == "" {
		return l.store.ID
	}
	return l.store.Slug
}
