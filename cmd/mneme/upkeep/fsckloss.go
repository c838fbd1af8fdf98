package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/finding"
	"mneme/internal/quote"
	"mneme/verify"
	"mneme/versionlog"
)

// problemLoss is a missing commit or content that was acknowledged.
const problemLoss verify.ProblemKind = "loss"

func lossProblem(l backend.Loss) verify.Problem {
	return verify.Problem{
		Kind: problemLoss, Finding: finding.Loss, Subject: "history", What: l.What,
		Do: "copy the directory again with `mneme backup`, go back to a backup, or go on without what is missing: `mneme fsck --accept-loss`",
	}
}

// losses returns the losses of the checked stores. With --accept-loss it accepts them
// instead.
func (c *FsckCmd) losses(ctx context.Context, a *app.App, at *backend.Location) ([]backend.Loss, error) {
	if at.Recovery.Losses == nil {
		return nil, nil
	}
	if !c.AcceptLoss {
		lost, err := at.Recovery.Losses(ctx)
		return slices.DeleteFunc(lost, func(l backend.Loss) bool {
			return c.Store != "" && l.Store.Slug != "" && c.Store != l.Store.Slug && c.Store != l.Store.ID
		}), err
	}
	lost, kept, err := at.Recovery.AcceptLosses(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range lost {
		if err := printAccepted(a, l, kept); err != nil {
			return nil, err
		}
	}
	return nil, a.Out.Flush()
}

// witnessed compares a store with the commits that this machine has seen. It reports the
// difference, or accepts it with --accept-loss. It does not repeat a loss that the backend
// has reported.
func (c *FsckCmd) witnessed(ctx context.Context, a *app.App, lib *backend.Library, s versionlog.Store, lost []backend.Loss, report func(verify.Problem)) error {
	missing, changed, err := lib.Seen(ctx, s)
	if err != nil {
		return err
	}
	why := "you went back to a backup"
	if missing == "" && changed != nil {
		why += ", or an earlier mneme updated it, which did not write that into its history"
		missing = "this machine has seen it with another " + strings.Join(changed, ", ")
	}
	var behind error
	if missing != "" {
		behind = lib.IndexBehind(ctx, s.ID)
	}
	twice := slices.ContainsFunc(lost, func(l backend.Loss) bool { return l.Store.ID == s.ID })
	switch {
	case missing == "" || twice:
	case behind != nil: // there is nothing to accept
		report(verify.Problem{Kind: problemLoss, Finding: finding.LossIndex, Subject: "store", What: missing, Do: "the records say something else than the index: " + doIndex(lib.Location)})
	case c.AcceptLoss:
		return errors.Join(lib.Accept(ctx, s), printAccepted(a, backend.Loss{Store: s, What: missing}, ""), a.Out.Flush())
	default:
		report(verify.Problem{
			Kind: problemLoss, Finding: finding.LossSeen, Subject: "store", What: missing,
			Do: fmt.Sprintf("if %s, that is why, and `mneme fsck %s --accept-loss` takes it as it is; else somebody has changed it behind mneme: compare it with a backup", why, s.Slug),
		})
	}
	return nil
}

func printAccepted(a *app.App, l backend.Loss, kept string) error {
	if a.JSON {
		return a.PrintJSON(struct {
			Type  string `json:"type"`
			Store string `json:"store"`
			Loss  string `json:"loss"`
			Kept  string `json:"kept,omitempty"`
		}{"accepted", lostName(l), l.What, kept})
	}
	where := ""
	if kept != "" {
		where = "; log.db-wal as it was is kept in " + kept
	}
	a.Printf("%s: %s: %s\n", quote.Text(lostName(l)), a.Paint(term.Yellow, "accepted"), quote.Text(l.What+where))
	return nil
}

// lostName is the name of the store, or its id.
func lostName(l backend.Loss) string { return cmp.Or(l.Store.Slug, l.Store.ID) }

// doIndex is the advice about an index that does not follow from the records.
func doIndex(at *backend.Location) string {
	if at.Recovery.Rebuild == nil {
		return "go back to a backup of log.db"
	}
	return "`mneme fsck --rebuild-index` makes the index from them, or tells why it cannot"
}
