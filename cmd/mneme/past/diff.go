package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/errkind"
	"mneme/history"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/versionlog"
)

// DiffCmd is the command `mneme diff`.
type DiffCmd struct {
	Place string `arg:"" help:"STORE:/path of a memory or directory, or STORE."`
	From  string `arg:"" optional:"" name:"v1" help:"Of a memory: version id, sequence number or another point, or the place of another memory. Default: the version that the newest one replaced. Of a directory or store: a point, such as 120, HEAD~5 or yesterday. Default: HEAD~1."`
	To    string `arg:"" optional:"" name:"v2" help:"The same. Default: the newest version, or HEAD."`
	Stat  bool   `help:"Only how many lines each memory has more and fewer."`
}

func (c *DiffCmd) Help() string {
	return `What goes into a file or a pipe is a patch that git apply and patch -p1 take, in a mount, too.

Examples:

    mneme diff notes:/todo.md        (what the last change did)
    mneme diff notes:/todo.md 7      (since sequence number 7)
    mneme diff notes:/todo.md 7 9
    mneme diff notes:/todo.md@7 9
    mneme diff notes:/todo.md notes:/plan.md
    mneme diff notes HEAD~5          (what the last five commits did)
    mneme diff notes:/projects 2 yesterday --stat`
}

func (c *DiffCmd) Run(ctx context.Context, a *app.App) error {
	p, err := app.ParseDir(c.Place)
	if err == nil && p.Path == "/" && strings.Contains(p.Store, "@") {
		_, err = app.ParseMemory(c.Place) // it says that a store has no versions
	}
	if err != nil {
		return err
	}
	return a.WithPlace(ctx, p, app.Reading, func(st *memory.Store) error {
		if isPlace(c.From) || c.From != "" && app.LooksLikePath(c.From) {
			return c.twoPlaces(ctx, a, st, p)
		}
		isDir, err := app.MeansDir(ctx, st, c.Place, p.Path)
		if err != nil {
			return err
		}
		if isDir {
			return c.trees(ctx, a, st, p.Path)
		}
		path, version, err := app.SplitVersion(ctx, st, p.Path)
		if err != nil {
			return err
		}
		if version != "" {
			if c.To != "" {
				return app.Usagef("%s has a version, and two others follow; want two in all", p)
			}
			c.From, c.To = version, c.From
		}
		from, to, err := c.versions(ctx, st, path)
		if err != nil {
			return app.ExplainMissing(ctx, st, path, err)
		}
		if c.From == "" {
			return c.lastChange(ctx, a, st, from, to)
		}
		return c.print(ctx, a, st, from, to)
	})
}

// isPlace reports whether a word is STORE:/path, and not a point of a history.
func isPlace(word string) bool { return strings.Contains(word, ":/") }

// versions returns the two versions to compare. from is nil if to is a memory's first.
func (c *DiffCmd) versions(ctx context.Context, st *memory.Store, path string) (from, to *versionlog.Version, err error) {
	if c.To != "" {
		to, err = view.VersionRef(ctx, st, path, c.To)
	} else {
		to, err = view.NewestVersion(ctx, st, path)
	}
	if err != nil {
		return nil, nil, err
	}
	if c.From != "" {
		from, err = view.VersionRef(ctx, st, path, c.From)
	} else {
		from, err = replacedBy(ctx, st, path, *to)
	}
	return from, to, err
}

// twoPlaces compares two memories of a store, or two versions of one, that are named as
// places.
func (c *DiffCmd) twoPlaces(ctx context.Context, a *app.App, st *memory.Store, p app.Place) error {
	q, err := app.ParseMemory(c.From)
	if err != nil {
		return err
	}
	if c.To != "" {
		return app.Usagef("%s and %s are two places, and %q follows; want two in all", p, q, c.To)
	}
	if q.Ref() != p.Ref() && q.Ref() != st.Info().Slug && q.Ref() != st.Info().ID {
		return app.Usagef("%s and %s are in different stores; want two memories of one", p, q)
	}
	if q.AsOf != p.AsOf {
		return app.Usagef("of %s and %s one is seen in a mount of the past, and the other not, or at another point; want two versions, such as %[1]s@7", p, q)
	}
	var sides [2]*versionlog.Version
	for i, at := range []app.Place{p, q} {
		path, version, err := app.SplitVersion(ctx, st, at.Path)
		if err != nil {
			return err
		}
		v, err := view.VersionOrHead(ctx, st, path, version)
		if err != nil {
			return app.ExplainMissing(ctx, st, path, err)
		}
		sides[i] = &v
	}
	return c.print(ctx, a, st, sides[0], sides[1])
}

// lastChange prints the change of a version. If the earlier version cannot be read, it
// prints the whole version.
func (c *DiffCmd) lastChange(ctx context.Context, a *app.App, st *memory.Store, from, to *versionlog.Version) error {
	diff, gone, err := changeTo(ctx, st, from, to)
	if err != nil {
		return err
	}
	if gone != nil {
		if _, err := fmt.Fprintf(a.Err, "mneme: the whole of it is shown, as the version before cannot be read: %s\n", quote.Text(gone.Error())); err != nil {
			return err
		}
	}
	if err := c.printDiff(a, st, from, to, diff, gone); err != nil {
		return err
	}
	return notOnPurpose(gone)
}

// print prints the differences of two versions.
func (c *DiffCmd) print(ctx context.Context, a *app.App, st *memory.Store, from, to *versionlog.Version) error {
	diff, err := diffVersions(ctx, st, from, to)
	if err != nil {
		return err
	}
	return c.printDiff(a, st, from, to, diff, nil)
}

func (c *DiffCmd) printDiff(a *app.App, st *memory.Store, from, to *versionlog.Version, diff string, gone error) error {
	if a.JSON {
		j := newDiffJSON(st, history.Difference{From: from, To: to}, diff)
		j.BeforeGone = whyGone(gone)
		return a.PrintJSON(j)
	}
	return a.Page(func() error {
		if c.Stat {
			a.Printf("%s\n", term.DiffStat(diff))
			return nil
		}
		a.PrintDiff(diff)
		return nil
	})
}

// trees prints the differences of two states of a store, or of a directory.
func (c *DiffCmd) trees(ctx context.Context, a *app.App, st *memory.Store, path string) error {
	var states [2]versionlog.State
	now := time.Now()
	for i, text := range []string{cmp.Or(c.From, "HEAD~1"), cmp.Or(c.To, "HEAD")} {
		point, err := history.ParsePoint(text, now)
		if err != nil {
			return err
		}
		seq, err := history.ResolvePoint(ctx, st, point)
		if err == nil {
			states[i], err = st.At(ctx, seq)
		}
		if err != nil {
			return err
		}
	}
	differences, err := history.Differences(ctx, st, states[0], states[1], path)
	if err != nil {
		return err
	}
	var gone []error
	err = a.Page(func() error {
		added, removed := 0, 0
		for p, err := range history.Patches(ctx, st, differences) {
			unreadable := isUnreadable(err)
			if unreadable {
				gone = append(gone, err)
				err = nil
			}
			if err == nil {
				err = a.OutError()
			}
			if err != nil {
				return err
			}
			switch {
			case a.JSON:
				j := newDiffJSON(st, p.Difference, p.Text)
				if unreadable {
					j.Unreadable = gone[len(gone)-1].Error()
				}
				if err := a.PrintJSON(j); err != nil {
					return err
				}
			case unreadable:
				op, name := changeOf(p.Difference)
				a.Printf("%s  %s  (content gone)\n", a.Paint(view.OpColors[op], fmt.Sprintf("%-8s", op)), quote.Text(name))
			case c.Stat:
				op, name := changeOf(p.Difference)
				plus, minus, _ := term.CountLines(p.Text)
				added, removed = added+plus, removed+minus
				a.Printf("%s  %s  %s\n", a.Paint(view.OpColors[op], fmt.Sprintf("%-8s", op)), quote.Text(name), term.DiffStat(p.Text))
			default:
				a.PrintDiff(p.Text)
			}
		}
		if c.Stat && !a.JSON {
			a.Printf("%s changed, +%d -%d\n", plural.Of(len(differences), "memory"), added, removed)
		}
		return nil
	})
	if err == nil && len(gone) > 0 {
		return fmt.Errorf("contents of %s could not be compared, the first since %w", plural.Of(len(gone), "memory"), gone[0])
	}
	return err
}

// changeOf is the operation on a memory between two states, and its name.
func changeOf(d history.Difference) (op versionlog.Op, name string) {
	switch {
	case d.From == nil:
		return versionlog.OpCreated, d.To.Path
	case d.To == nil:
		return versionlog.OpDeleted, d.From.Path
	case d.From.Path != d.To.Path:
		return versionlog.OpRenamed, d.From.Path + " → " + d.To.Path
	}
	return versionlog.OpModified, d.To.Path
}

func replacedBy(ctx context.Context, st *memory.Store, path string, v versionlog.Version) (*versionlog.Version, error) {
	before, ok, err := history.Replaced(ctx, st, path, v)
	if err != nil || !ok {
		return nil, err
	}
	return &before, nil
}

// isUnreadable reports whether an error says that a content is missing, erased or lost.
func isUnreadable(err error) bool {
	return errors.Is(err, memory.ErrRedacted) || err != nil && errkind.Of(err) == errkind.Corrupt
}

// diffVersions returns the patch between two versions. A deletion, a directory and nil
// count as a missing file.
func diffVersions(ctx context.Context, st *memory.Store, from, to *versionlog.Version) (string, error) {
	var sides [2]history.Side
	for i, v := range []*versionlog.Version{from, to} {
		if v == nil || !v.Live() || v.IsDir() {
			continue
		}
		data, err := st.Content(ctx, *v)
		if err != nil {
			return "", err
		}
		path := v.Path
		if i == 0 && to != nil && v.MemoryID != to.MemoryID && v.At(to.Path) {
			path = to.Path // it was renamed away to make room for the other
		}
		sides[i] = history.SideOf(st, path, *v, data)
	}
	return history.Patch(sides[0], sides[1], from != nil && to != nil && from.MemoryID == to.MemoryID), nil
}

// changeTo returns the patch from the version before v, which may be nil, to v. If the
// content of that version cannot be read, the patch is the whole of v, and gone is the
// reason.
func changeTo(ctx context.Context, st *memory.Store, before, v *versionlog.Version) (diff string, gone, err error) {
	diff, err = diffVersions(ctx, st, before, v)
	if before == nil || v.Redacted() || !isUnreadable(err) {
		return diff, nil, err
	}
	gone = err
	diff, err = diffVersions(ctx, st, nil, v)
	return diff, gone, err
}

// notOnPurpose returns the error of a content that is missing, unless it was erased.
func notOnPurpose(gone error) error {
	if errors.Is(gone, memory.ErrRedacted) {
		return nil
	}
	return gone
}

// whyGone is the text of an error; "" of none.
func whyGone(gone error) string {
	if gone == nil {
		return ""
	}
	return gone.Error()
}

type diffJSON struct {
	From *jsonview.Version `json:"from"`
	To   *jsonview.Version `json:"to"`
	Diff string            `json:"diff"`

	BeforeGone string `json:"before_gone,omitempty"` // why diff is the whole of To
	Unreadable string `json:"unreadable,omitempty"`  // why there is no diff
}

func newDiffJSON(st *memory.Store, d history.Difference, diff string) diffJSON {
	j := diffJSON{Diff: diff}
	if d.From != nil {
		v := jsonview.NewVersion(st.Info().ID, *d.From)
		j.From = &v
	}
	if d.To != nil {
		v := jsonview.NewVersion(st.Info().ID, *d.To)
		j.To = &v
	}
	return j
}
