package past

import (
	"context"
	"errors"
	"fmt"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/history"
	"mneme/internal/quote"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/versionlog"
)

// WhyCmd is the command `mneme why`.
type WhyCmd struct {
	Place string `arg:"" help:"STORE, or STORE:/path of a memory or directory."`
	Text  string `arg:"" help:"The text to look for, letter for letter; it may have several lines."`
}

func (c *WhyCmd) Help() string {
	return `Finds the first version that said something: who wrote it, when and in which session; and the memories that still say it, the first one also where it has moved to. Ends with exit code 3 if nobody ever said it. Contents that were redacted or are lost cannot be searched; it says how many there are.

Examples:

    mneme why notes 'Ship on Friday'
    mneme why notes:/plan.md 'Ship on Friday'
    mneme why notes:/projects/ 11 --json`
}

func (c *WhyCmd) Run(ctx context.Context, a *app.App) error {
	p, err := app.ParseDir(c.Place)
	if err != nil {
		return err
	}
	if c.Text == "" {
		return app.Usagef("the text is empty; want one to look for")
	}
	return a.WithPlace(ctx, p, app.Reading, func(st *memory.Store) error {
		bar := a.Progress("why " + p.String())
		first, unread, err := history.FirstSaid(ctx, st, p.Path, c.Text, func(done, total int) { bar.Show("commits", done, total) })
		bar.Clear()
		if errors.Is(err, history.ErrNeverSaid) {
			return errors.Join(fmt.Errorf("%s: %w", quote.Name(c.Text), err), view.WarnUnread(a, unread))
		}
		if err != nil {
			return err
		}
		if a.JSON {
			return c.json(ctx, a, st, p.Path, first, unread)
		}
		c.print(a, st, first)
		if unread != (history.Unread{}) {
			a.Printf("An earlier version may have said it: some could not be searched.\n")
		}
		if err := a.Out.Flush(); err != nil { // the rest may take a while
			return err
		}
		still, n := history.Unread{}, 0
		for v, err := range history.StillSay(ctx, st, p.Path, first.MemoryID, c.Text, &still) {
			if err != nil {
				return err
			}
			if n++; n == 1 {
				a.Printf("\n%s\n", a.Paint(term.Bold, "Still said by"))
			}
			a.Printf("%s:%s\n", st.Info().Slug, quote.Text(v.Path))
		}
		if n == 0 {
			a.Printf("\nNo memory says it any more.\n")
		}
		return view.WarnUnread(a, history.Unread{Redacted: unread.Redacted + still.Redacted, Lost: unread.Lost + still.Lost})
	})
}

// print prints the first version with the text.
func (c *WhyCmd) print(a *app.App, st *memory.Store, v versionlog.Version) {
	fields := [][2]string{
		{"First said", fmt.Sprintf("%s:%s@%d", st.Info().Slug, v.Path, v.Seq)}, {"Version", v.ID}, {"Change", string(v.Op)},
		{"Time", term.LocalTime(v.Time)}, {"By", v.Actor.String()},
	}
	for _, f := range [][2]string{{"Session", v.Session}, {"Message", v.Message}} {
		if f[1] != "" {
			fields = append(fields, f)
		}
	}
	a.PrintFields(fields)
}

// whyJSON is the first version with a text, and the memories that still have it.
type whyJSON struct {
	Type   string           `json:"type"`
	Text   string           `json:"text"`
	First  jsonview.Version `json:"first"`
	Still  []view.Memory    `json:"still"`
	Unread view.UnreadJSON  `json:"unread"`
}

func (c *WhyCmd) json(ctx context.Context, a *app.App, st *memory.Store, path string, first versionlog.Version, unread history.Unread) error {
	id := st.Info().ID
	j := whyJSON{Type: "origin", Text: c.Text, First: jsonview.NewVersion(id, first), Still: []view.Memory{}}
	for v, err := range history.StillSay(ctx, st, path, first.MemoryID, c.Text, &unread) {
		if err != nil {
			return err
		}
		j.Still = append(j.Still, view.NewMemory(id, v))
	}
	j.Unread = view.UnreadJSON(unread)
	return a.PrintJSON(j)
}
