package agent

import (
	"context"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/sessions"
	"mneme/daemon"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/note"
	"mneme/versionlog"
)

// NoteCmd is the command `mneme note`.
type NoteCmd struct {
	Stores       []string          `arg:"" name:"store[:ro]" help:"Stores that the agent has; :ro says that it only reads one."`
	At           string            `default:"${mountdir}" placeholder:"DIR" help:"Where they are mounted. Default: ${default}."`
	Flat         bool              `help:"The one store is mounted as DIR itself, with 'mount --flat'."`
	Tool         bool              `help:"The agent has the memory tool instead of files."`
	Instructions map[string]string `placeholder:"STORE=TEXT" mapsep:"none" help:"What to tell about a store besides. Default: its metadata pair 'instructions'."`
	sessions.SharingFlags
}

func (c *NoteCmd) Help() string {
	return `The note says where the stores are, what they are for and may hold, what to do when a write is refused, and where lost text and earlier versions are. 'mneme mount --print-prompt' prints it for a mount with the same options.

Examples:

    mneme note notes docs:ro >> system-prompt.txt
    mneme note notes --at /srv/agent-1/memory --instructions notes="One file per topic."
    mneme note notes --tool`
}

func (c *NoteCmd) Run(ctx context.Context, a *app.App) error {
	dir, err := filepath.Abs(c.At)
	if err != nil {
		return err
	}
	wanted, err := sessions.WantStores(c.Stores, false)
	if err != nil {
		return err
	}
	if c.Flat && len(wanted) != 1 {
		return app.Usagef("--flat is for one store, not %d", len(wanted))
	}
	return a.WithLibrary(ctx, app.Reading, func(lib *backend.Library) error {
		var mounts []note.Mount
		unused := maps.Clone(c.Instructions)
		credential := lib.Credential()
		for _, w := range wanted {
			info, err := lib.FindStore(ctx, w.Ref)
			if err != nil {
				return err
			}
			mounts = append(mounts, note.Mount{
				Path: c.place(dir, info.Slug), Store: info, ReadOnly: w.ReadOnly || memory.Closed(info) != nil || !credential.MayWrite(info.ID, ""),
				Instructions: takeInstructions(unused, w.Ref, info),
			})
		}
		for _, ref := range slices.Sorted(maps.Keys(unused)) {
			return app.Usagef("--instructions %s: that is none of the stores; want one of %s", quote.Text(ref), strings.Join(c.Stores, ", "))
		}
		c.Settle(lib)
		opts := c.NoteOptions()
		if opts.Tool = c.Tool; c.Tool {
			opts.History = ""
		}
		return sessions.PrintNote(a, note.Text(mounts, opts))
	})
}

// place is the place of a store for the agent.
func (c *NoteCmd) place(dir, slug string) string {
	switch {
	case !c.Tool:
		return daemon.StoreDir(dir, c.Flat, slug)
	case len(c.Stores) == 1:
		return toolRoot
	}
	return path.Join(toolRoot, slug)
}

// toolRoot is the root of the memory tool.
const toolRoot = "/memories"

// takeInstructions removes and returns the instructions for a store, by the name or id of
// the argument, or by the store's own.
func takeInstructions(from map[string]string, ref string, s versionlog.Store) (text string) {
	for _, name := range []string{s.ID, s.Slug, ref} {
		if given, ok := from[name]; ok {
			text = given
			delete(from, name)
		}
	}
	return text
}
