package past

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/history"
	"mneme/internal/quote"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/versionlog"
)

// BlameCmd is the command `mneme blame`.
type BlameCmd struct {
	Place   string `arg:"" help:"STORE:/path of a memory, or with @V of a version of it."`
	Version string `arg:"" optional:"" help:"Version id, sequence number, or point of its history, such as yesterday. Default: the current one."`
}

func (c *BlameCmd) Help() string {
	return `Shows for each line the version that brought it, its time and its session, or its author outside of one; across renames, and across programs that save by renaming the old file away. A ? marks lines that a version may have brought which cannot be read any more.

Examples:

    mneme blame notes:/todo.md
    mneme blame notes:/todo.md@7
    mneme blame notes:/todo.md HEAD~3
    mneme blame notes:/todo.md --json`
}

func (c *BlameCmd) Run(ctx context.Context, a *app.App) error {
	return view.WithVersion(ctx, a, c.Place, c.Version, func(st *memory.Store, p app.Place, v versionlog.Version) error {
		bar := a.Progress("blame " + p.String())
		blame, err := history.Blame(ctx, st, v, func(done, total int) { bar.Show("lines", done, total) })
		bar.Clear()
		if err != nil {
			return err
		}
		if a.JSON {
			return printBlameJSON(a, st, blame)
		}
		return a.Page(func() error { printBlame(a, blame); return nil })
	})
}

func printBlame(a *app.App, b *history.Blamed) {
	seqs, names, numbers := 0, 0, len(strconv.Itoa(len(b.Lines)))
	for _, line := range b.Lines {
		seqs = max(seqs, len(blameSeq(&line)))
		names = max(names, term.TextWidth(blamed(line.By)))
	}
	for i, line := range b.Lines {
		who := blamed(line.By)
		a.Printf("%s  %s  %s%s  %*d  ", a.Paint(term.Yellow, fmt.Sprintf("%*s", seqs, blameSeq(&line))), term.LocalTime(line.By.Time),
			who, strings.Repeat(" ", names-term.TextWidth(who)), numbers, i+1)
		text := strings.TrimSuffix(line.Text, "\n")
		if a.IsTerminal {
			text = term.PrintableLine(text)
		}
		a.Printf("%s\n", text)
	}
}

// blameSeq is the sequence number of a line's version, with a mark if the line may belong
// to another.
func blameSeq(line *history.BlamedLine) string {
	seq := strconv.FormatUint(line.By.Seq, 10)
	if line.Unsure {
		seq = "?" + seq
	}
	return seq
}

// blamed is the author of a version: its session, or its actor outside a session.
func blamed(v *versionlog.Version) string {
	return quote.Text(cmp.Or(v.Session, view.ActorName(v.Actor)))
}

// blameJSON is one line of a memory, and the version that brought it.
type blameJSON struct {
	Type      string            `json:"type"`
	Line      int               `json:"line"` // from 1 on
	VersionID string            `json:"memory_version_id"`
	Seq       uint64            `json:"seq"`
	Path      string            `json:"path"` // at that version
	CreatedAt time.Time         `json:"created_at"`
	CreatedBy map[string]string `json:"created_by"`
	SessionID string            `json:"session_id,omitempty"`
	Message   string            `json:"message,omitempty"`
	Unsure    bool              `json:"unsure,omitempty"`
	Text      string            `json:"text"` // with its end
}

func printBlameJSON(a *app.App, st *memory.Store, b *history.Blamed) error {
	for i, line := range b.Lines {
		v := line.By
		if err := a.PrintJSON(blameJSON{
			"blamed_line", i + 1, v.ID, v.Seq, v.Path, v.Time.UTC(), jsonview.NewActor(v.Actor), v.Session, v.Message, line.Unsure, line.Text,
		}); err != nil {
			return err
		}
	}
	return nil
}
