package upkeep

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"mneme/backend"
	"mneme/cas"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/errkind"
	"mneme/forget"
	"mneme/internal/quote"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/versionlog"
)

// RedactCmd is the command `mneme redact`.
type RedactCmd struct {
	Store    string   `arg:"" help:"Its name or id."`
	Versions []string `arg:"" optional:"" name:"version" help:"Version ids, or sequence numbers: all versions of that commit."`
	Reason   string   `required:"" placeholder:"R" help:"Why; it stays in the history for ever, so it must not repeat what is erased."`
	Grep     string   `placeholder:"TEXT" help:"All versions whose content or path has the text, letter for letter. A current one among them is an error."`
	Path     string   `placeholder:"/P" help:"Only versions at the path or below it; without --grep the current ones stay."`
	Session  string   `placeholder:"ID" help:"Only versions of the session; without --grep the current ones stay."`
	DryRun   bool     `help:"Show what would be erased, and erase nothing."`
	Yes      bool     `help:"Do not ask."`

	unmatched bool // by the query: no version, be it a current one or one that cannot be read
}

func (c *RedactCmd) Help() string {
	return `Erases versions for good: their content, path, size and hash leave the history, the database with its free pages and its write-ahead log, or the table and the bucket with old versions of objects, the files of contents, kept conflicts, what killed mounts have left, and the caches of every mount as it follows. What stays is that there was a version, by whom and when, and who erased it, when and why; the chain of the history still verifies. A content that other versions have, too, stays with them. The current version of a memory is refused: write or remove it first. Prints a receipt, which says of each place when it was erased there, what could not be looked at since it is damaged, and what could not be reached. Where something could not be looked at, all else is erased, and the exit code is 7; where something is left (NOT YET), it is 1; where no version matches, it is 3. A scratch file of a running mount stays with its program and is named. To run it again is safe, and does what was left to do; on AWS it takes the ids of the versions for that, and credentials that may delete from the bucket.

Examples:

    mneme redact notes --grep hunter2 --reason 'password, ticket 81' --dry-run
    mneme redact notes memver_0000000000001005zvgzwkzawr --reason 'asked for by a customer'
    mneme redact notes --path /drafts --session sesn_7 --reason 'wrong store' --yes`
}

func (c *RedactCmd) Run(ctx context.Context, a *app.App) error {
	byQuery := c.Grep != "" || c.Path != "" || c.Session != ""
	switch {
	case strings.TrimSpace(c.Reason) == "":
		return app.Usagef("the reason is empty; want --reason WHY")
	case byQuery == (len(c.Versions) > 0):
		return app.Usagef("want either versions, or --grep, --path or --session")
	case c.Grep != "" && strings.Contains(c.Reason, c.Grep):
		return app.Usagef("the reason repeats what is to be erased, and would stay in the history")
	}
	opts := app.Writing
	if c.DryRun {
		opts = app.Reading
	}
	return a.WithLibrary(ctx, opts, func(lib *backend.Library) error {
		st, err := app.OpenStore(ctx, lib, c.Store, opts)
		if err != nil {
			return err
		}
		found, unseen, err := c.find(ctx, a, st)
		if err != nil {
			return err
		}
		if c.DryRun {
			if err := c.showFound(a, st, found, unseen); err != nil {
				return err
			}
			return c.ending(nil, unseen)
		}
		if len(found) > 0 && !c.Yes {
			if err := c.showFound(a, st, found, unseen); err != nil {
				return err
			}
			if err := a.Out.Flush(); err != nil {
				return err
			}
			if err := a.Confirm(fmt.Sprintf("this erases %s of %s for good", view.VersionCount(len(found)), st.Info().Slug), st.Info().Slug); err != nil {
				return err
			}
		}
		return c.redact(ctx, a, lib, st, found, unseen)
	})
}

// errNotAll says that a redaction could not check everything that it was asked about.
var errNotAll = errkind.New(errkind.Corrupt, "what the redaction could not look at, it has not erased; mend it from a backup (`mneme fsck` says more) and run the command again, or name the versions by their ids")

// errNoMatch says that a query matches no version, not even a current one.
var errNoMatch = errkind.New(errkind.NotFound, "no version matches, unless it was erased before; want a --grep, --path or --session that some have (`mneme log STORE` shows them)")

// ending is the error about data that is left, or could not be checked.
func (c *RedactCmd) ending(left []forget.Place, unseen []forget.Unseen) error {
	switch {
	case len(unseen) > 0:
		return errNotAll
	case len(left) > 0:
		return app.ErrNotYet
	case c.unmatched:
		return errNoMatch
	}
	return nil
}

// find returns the versions to erase, and those that could not be checked.
func (c *RedactCmd) find(ctx context.Context, a *app.App, st *memory.Store) ([]forget.Found, []forget.Unseen, error) {
	q := forget.Query{Session: c.Session, Text: c.Grep}
	if c.Path != "" {
		path, err := memory.ParsePrefix(c.Path)
		if err != nil {
			return nil, nil, err
		}
		q.Path = path
	}
	for _, ref := range c.Versions {
		ids, err := versionsOf(ctx, st, ref)
		if err != nil {
			return nil, nil, err
		}
		q.Versions = append(q.Versions, ids...)
	}
	c.Versions = q.Versions
	bar := a.Progress("redact " + st.Info().Slug)
	all, unseen, err := forget.Find(ctx, st, q, func(done, total int) { bar.Show("commits", done, total) })
	bar.Clear()
	if err != nil {
		return nil, nil, err
	}
	c.unmatched = len(all)+len(unseen)+len(c.Versions) == 0
	var found []forget.Found
	var current []string
	for _, v := range all {
		if v.Current {
			current = append(current, fmt.Sprintf("%s (%s)", v.Path, v.ID))
			continue
		}
		found = append(found, v)
	}
	if len(current) > 0 && (c.Grep != "" || len(c.Versions) > 0) {
		return nil, nil, fmt.Errorf("%w: %s", versionlog.ErrLiveHead, firstFew(current))
	}
	return found, unseen, nil
}

// versionsOf returns the version ids of an argument: itself, or those of the commit with a
// sequence number.
func versionsOf(ctx context.Context, st *memory.Store, ref string) (ids []string, err error) {
	seq, err := strconv.ParseUint(ref, 10, 64)
	if err != nil {
		return []string{ref}, nil
	}
	c, err := st.Commit(ctx, seq)
	if err != nil {
		return nil, err
	}
	for i := range c.Versions {
		ids = append(ids, c.Versions[i].ID)
	}
	if len(ids) == 0 {
		return nil, app.Usagef("commit %d of store %s has no versions", seq, st.Info().Slug)
	}
	return ids, nil
}

// firstFew names the first of many.
func firstFew(names []string) string {
	const few = 5
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}

// redactableJSON is a version that would be erased.
type redactableJSON struct {
	jsonview.Version
	Copies int `json:"copies"` // versions with its content that stay, and the content with them
}

// unseenJSON is a version that the redaction could not check.
type unseenJSON struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

func newUnseenJSON(unseen []forget.Unseen) []unseenJSON {
	all := []unseenJSON{}
	for _, u := range unseen {
		all = append(all, unseenJSON(u))
	}
	return all
}

func printUnseen(a *app.App, unseen []forget.Unseen) {
	if len(unseen) > 0 {
		a.Printf("Not looked at:\n")
	}
	for _, u := range unseen {
		a.Printf("  %s: %s\n", quote.Text(u.What), quote.Text(u.Why))
	}
}

func (c *RedactCmd) showFound(a *app.App, st *memory.Store, found []forget.Found, unseen []forget.Unseen) error {
	if a.JSON {
		if c.DryRun {
			for _, v := range found {
				if err := a.PrintJSON(redactableJSON{jsonview.NewVersion(st.Info().ID, v.Version), v.Copies}); err != nil {
					return err
				}
			}
			if len(unseen) > 0 {
				return a.PrintJSON(struct {
					Unseen []unseenJSON `json:"unseen"`
				}{newUnseenJSON(unseen)})
			}
		}
		return nil
	}
	printUnseen(a, unseen)
	if len(found) == 0 {
		a.Printf("Nothing to erase.\n")
		return nil
	}
	t := &term.Table{Header: []string{"VERSION", "SEQ", "TIME", "CHANGE", "PATH", "CONTENT"}, Right: []string{"SEQ"}, Shrink: []string{"PATH"}, Paths: []string{"PATH"}}
	for _, v := range found {
		t.Add(v.ID, strconv.FormatUint(v.Seq, 10), term.LocalTime(v.Time), string(v.Op), view.LogPath(&v.Version), contentOf(&v))
	}
	a.PrintTable(t)
	return nil
}

// contentOf says what happens to the content of an erased version.
func contentOf(v *forget.Found) string {
	switch {
	case v.Digest.IsZero():
		return "-"
	case v.Copies > 0:
		return "stays with " + view.VersionCount(v.Copies)
	}
	return strconv.FormatInt(v.Size, 10)
}

func (c *RedactCmd) redact(ctx context.Context, a *app.App, lib *backend.Library, st *memory.Store, found []forget.Found, unseen []forget.Unseen) error {
	ids, digests := make([]string, len(found)), map[cas.Digest]bool{}
	for i := range found {
		v := &found[i]
		ids[i] = v.ID
		if !v.Digest.IsZero() {
			digests[v.Digest] = true
		}
	}
	for _, id := range c.Versions { // of those that are erased the rest is done
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	receipt, err := forget.Redact(ctx, app.MachineOf(lib), st, &forget.Request{Versions: ids, Contents: slices.Collect(maps.Keys(digests)), Text: c.Grep, Reason: c.Reason})
	if receipt == nil { // nothing was erased
		return err
	}
	c.unmatched = c.unmatched && receipt.Found == 0
	if printErr := c.print(a, receipt, unseen); err == nil {
		err = printErr
	}
	if err == nil {
		err = c.ending(receipt.Left(), unseen)
	}
	return err
}

// receiptJSON is a receipt, with the versions that the redaction could not check.
type receiptJSON struct {
	*forget.Receipt
	Unseen []unseenJSON `json:"unseen"`
}

func (c *RedactCmd) print(a *app.App, r *forget.Receipt, unseen []forget.Unseen) error {
	if a.JSON {
		return a.PrintJSON(receiptJSON{r, newUnseenJSON(unseen)})
	}
	switch {
	case c.unmatched:
		a.Printf("No version of %s matches: nothing was erased from its history; what an earlier redaction has left was looked at.\n", r.Store)
	case len(r.Versions) == 0:
		a.Printf("Nothing was erased from the history; what an earlier redaction has left was looked at.\n")
	default:
		a.Printf("%s of %s erased, sequence number %s: %d contents erased, %d stay with other versions.\n",
			view.VersionCount(len(r.Versions)), r.Store, strings.Trim(fmt.Sprint(r.Sequence), "[]"), r.Erased, r.Kept)
	}
	for _, p := range r.Places {
		if p.Left != "" {
			a.Printf("  NOT YET  %s: %s\n", p.Place, quote.Text(p.Left))
			continue
		}
		a.Printf("  %s  %s\n", p.ErasedAt.Format(time.RFC3339), p.Place)
	}
	printUnseen(a, unseen)
	a.Printf("Not reached:\n")
	if len(r.PathsIn) > 0 {
		a.Printf("  paths of erased versions, which %s still tell, having renamed or removed the memory there: erase these, too, and before that write or remove what is current\n", firstFew(r.PathsIn))
	}
	for _, what := range r.Unreached {
		a.Printf("  %s\n", what)
	}
	return nil
}
