package memories

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/versionlog"
)

// LsCmd is the command `mneme ls`.
type LsCmd struct {
	Place     string `arg:"" help:"STORE, or STORE:/path of a directory or memory."`
	Long      bool   `short:"l" help:"Size, time, sequence number and actor, too."`
	Recursive bool   `short:"r" help:"Everything below the directory."`
}

func (c *LsCmd) Help() string {
	return `Examples:

    mneme ls notes
    mneme ls -l notes:/projects
    mneme ls -r notes --json`
}

func (c *LsCmd) Run(ctx context.Context, a *app.App) error {
	p, err := app.ParseDir(c.Place)
	if err != nil {
		return err
	}
	return a.WithPlace(ctx, p, app.Reading, func(st *memory.Store) error {
		entries, err := c.Entries(ctx, st, p)
		switch {
		case err != nil:
			return err
		case a.JSON:
			return printEntriesJSON(a, st.Info().ID, p.Path, entries)
		case c.Long && len(entries) > 0:
			printEntriesLong(a, entries)
		case !c.Long:
			for _, e := range entries {
				a.Printf("%s\n", quote.Cell(e.Name))
			}
		}
		return nil
	})
}

// entry is a memory, or a directory, whose name ends with a slash.
type entry struct {
	Name string // below the directory that was asked for
	head *versionlog.Version
}

// Entries returns the memories and directories directly in a place, or all below it.
func (c *LsCmd) Entries(ctx context.Context, st *memory.Store, p app.Place) ([]entry, error) {
	var entries []entry
	empty := false // a directory that is there, with nothing in it
	base := strings.TrimSuffix(p.Path, "/") + "/"
	for v, err := range st.Tree(ctx, p.Path) {
		if err != nil {
			return nil, err
		}
		name, below := strings.CutPrefix(v.Path, base)
		if !below {
			return []entry{{Name: v.Path, head: &v}}, nil // p is this memory
		}
		if last := len(entries) - 1; last >= 0 && c.Recursive && entries[last].head == nil && strings.HasPrefix(name, entries[last].Name) {
			entries = entries[:last] // only directories in which nothing is are worth a line
		}
		dir, _, deeper := strings.Cut(name, "/")
		switch {
		case name == "": // p itself
			empty = true
		case v.IsDir() && c.Recursive:
			entries = append(entries, entry{Name: name})
		case !deeper || c.Recursive:
			entries = append(entries, entry{Name: name, head: &v})
		case len(entries) == 0 || entries[len(entries)-1].Name != dir+"/":
			entries = append(entries, entry{Name: dir + "/"})
		}
	}
	if entries == nil && p.Path != "/" && !empty {
		return nil, fmt.Errorf("%s: %w", p, versionlog.ErrNotFound)
	}
	return entries, nil
}

func printEntriesJSON(a *app.App, storeID, dir string, entries []entry) error {
	for _, e := range entries {
		var value any = view.Prefix{Type: "memory_prefix", Path: strings.TrimSuffix(dir, "/") + "/" + e.Name}
		if e.head != nil {
			value = view.NewMemory(storeID, *e.head)
		}
		if err := a.PrintJSON(value); err != nil {
			return err
		}
	}
	return nil
}

func printEntriesLong(a *app.App, entries []entry) {
	t := &term.Table{Header: []string{"SIZE", "MODIFIED", "SEQ", "BY", "NAME"}, Right: []string{"SIZE", "SEQ"},
		Shrink: []string{"BY", "NAME"}, Paths: []string{"NAME"}}
	for _, e := range entries {
		if e.head == nil {
			t.Add("-", "-", "-", "-", e.Name)
			continue
		}
		v := e.head
		t.Add(strconv.FormatInt(v.Size, 10), term.LocalTime(v.Time), strconv.FormatUint(v.Seq, 10), view.ActorName(v.Actor), e.Name)
	}
	a.PrintTable(t)
}
