package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/memory"
	"mneme/pack"
	"mneme/versionlog"
)

// PackCmd is the command `mneme pack`.
type PackCmd struct {
	Place    string        `arg:"" help:"STORE, or STORE:/path of a directory or memory."`
	MaxBytes term.ByteSize `required:"" placeholder:"SIZE" help:"How long the text may be, 512 bytes to 16MiB."`
	Prefix   string        `placeholder:"PATH" help:"Only what is at or below this path."`
	At       term.Count    `placeholder:"SEQ" help:"The store as it was after that commit. Default: the newest."`
	Since    *term.Bound   `xor:"what" placeholder:"SEQ" help:"What has changed after that commit, instead of everything; 0 is from the beginning."`
	Pin      []string      `xor:"what" sep:"none" placeholder:"PATH" help:"A memory that comes before the newest; may be given several times. Default: MEMORY.md, README.md and index.md."`
	Raw      bool          `help:"Write the bytes as they are to a terminal, too."`
}

func (c *PackCmd) Help() string {
	return `One block of text for a prompt: an index of what is there, the pinned memories, then the newest, as far as they fit. The block of one sequence number is always the same bytes, so that a cache of prompts goes on hitting: take the number from --json, give it with --at from then on, and add what has changed with --since.

Examples:

    mneme pack notes --max-bytes 8000
    mneme pack notes --max-bytes 8000 --at 12
    mneme pack notes --max-bytes 2000 --since 12
    mneme pack notes --max-bytes 16KiB --prefix /projects --json
    mneme pack notes --max-bytes 8000 --pin /plan.md --pin /todo.md`
}

func (c *PackCmd) Run(ctx context.Context, a *app.App) error {
	p, err := app.ParseDir(c.Place)
	if err != nil {
		return err
	}
	if c.Prefix != "" {
		if p.Path != "/" {
			return app.Usagef("%s names a path, and --prefix another; want one", p.Word())
		}
		p.Path = c.Prefix
	}
	return a.WithPlace(ctx, p, app.Reading, func(st *memory.Store) error {
		made, err := pack.Render(ctx, st, int(c.MaxBytes), &pack.Options{Prefix: p.Path, Seq: uint64(c.At), Since: c.sinceSeq(), Pins: c.Pin})
		if err != nil {
			return nameFlag(err)
		}
		return printPack(a, st, made, c.Raw)
	})
}

// packFlags are the flags for the options of a pack.
var packFlags = map[string]string{"MaxBytes": "--max-bytes", "Prefix": "--prefix", "Seq": "--at", "Since": "--since", "Pins": "--pin"}

// nameFlag names the flag in an error of a pack.
func nameFlag(err error) error {
	var option *pack.OptionError
	if errors.As(err, &option) {
		return fmt.Errorf("%s: %w", packFlags[option.Option], err)
	}
	return err
}

func (c *PackCmd) sinceSeq() *uint64 {
	if c.Since == nil {
		return nil
	}
	seq := uint64(*c.Since)
	return &seq
}

// packJSON is a pack as --json writes it.
type packJSON struct {
	Type    string            `json:"type"`
	StoreID string            `json:"memory_store_id"`
	Seq     uint64            `json:"seq"`
	Digest  versionlog.Digest `json:"digest"`
	Shown   int               `json:"shown"` // memories whose content is in the text, if only in part
	Left    int               `json:"left"`  // others
	Text    string            `json:"text"`
}

// printPack prints the bytes of a pack. On a terminal, unless raw, it escapes invisible
// characters.
func printPack(a *app.App, st *memory.Store, p pack.Pack, raw bool) error {
	if a.JSON {
		return a.PrintJSON(packJSON{"pack", st.Info().ID, p.Seq, p.Digest, p.Shown, p.Left, string(p.Text)})
	}
	if !a.IsTerminal || raw {
		_, err := a.Out.Write(p.Text)
		return err
	}
	for line := range strings.Lines(string(p.Text)) {
		a.Printf("%s", term.PrintableLine(line))
	}
	return nil
}
