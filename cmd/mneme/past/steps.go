package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/session"
	"mneme/undo"
	"mneme/versionlog"
)

// stepJSON is a planned change.
type stepJSON struct {
	Type      string      `json:"type"`
	Operation string      `json:"operation"`
	Path      string      `json:"path"`
	FromPath  string      `json:"from_path,omitempty"`
	FromID    string      `json:"from_version_id,omitempty"` // what is there
	ToID      string      `json:"to_version_id,omitempty"`   // whose content will be there; missing of a merged one
	Lines     *term.Lines `json:"lines,omitempty"`           // missing of a directory
}

// leftJSON is a path that stays unchanged.
type leftJSON struct {
	Type      string `json:"type"`
	Path      string `json:"path"`
	Why       string `json:"why"`
	VersionID string `json:"version_id,omitempty"` // what is there
	SessionID string `json:"session_id,omitempty"` // which made that
}

// printStepList lists planned changes, and their numbers of lines.
func printStepList(ctx context.Context, a *app.App, st *memory.Store, steps []undo.Step, left []undo.Left, conflicts []conflictLine) error {
	return a.Page(func() error {
		added, removed := 0, 0
		for p, err := range undo.StepPatches(ctx, st, steps) {
			if err == nil {
				err = a.OutError()
			}
			if err != nil {
				return err
			}
			op, name := p.Op(), p.Path()
			if a.JSON {
				if err := a.PrintJSON(newStepJSON(&p)); err != nil {
					return err
				}
				continue
			}
			if op == versionlog.OpRenamed {
				name = p.From.Path + " → " + name
			}
			stat := ""
			if !strings.HasSuffix(name, "/") {
				plus, minus, _ := term.CountLines(p.Text)
				added, removed = added+plus, removed+minus
				stat = "  " + term.DiffStat(p.Text)
			}
			a.Printf("%s  %s%s\n", a.Paint(view.OpColors[op], fmt.Sprintf("%-8s", op)), quote.Text(name), stat)
		}
		if err := printConflicts(a, conflicts); err != nil {
			return err
		}
		if err := printLeftPaths(a, left); err != nil || a.JSON {
			return err
		}
		a.Printf("%s would be made, +%d -%d; nothing was changed\n", plural.Of(len(steps), "change"), added, removed)
		return nil
	})
}

func newStepJSON(p *undo.StepPatch) stepJSON {
	j := stepJSON{Type: "change", Operation: string(p.Op()), Path: p.Path()}
	if p.From != nil {
		j.FromID = p.From.ID
		if p.From.Path != j.Path {
			j.FromPath = p.From.Path
		}
	}
	if p.To != nil && p.To.Source != nil {
		j.ToID = p.To.Source.ID
	}
	if !strings.HasSuffix(j.Path, "/") {
		j.Lines = term.NewLines(p.Text)
	}
	return j
}

// allErased reports whether every unchanged path is so because its content was erased.
func allErased(left []undo.Left) bool {
	return !slices.ContainsFunc(left, func(l undo.Left) bool { return !l.IsErased() })
}

// printLeftPaths lists unchanged paths.
func printLeftPaths(a *app.App, left []undo.Left) error {
	for _, l := range left {
		if a.JSON {
			if err := a.PrintJSON(newLeftJSON(l)); err != nil {
				return err
			}
			continue
		}
		a.Printf("%s  %s: %s\n", a.Paint(term.Red, "left    "), quote.Text(cmp.Or(l.Path, "a path that was erased")), quote.Text(whyLeft(l)))
	}
	return nil
}

func newLeftJSON(l undo.Left) leftJSON {
	j := leftJSON{Type: "left", Path: l.Path, Why: whyLeft(l)}
	if l.Head != nil {
		j.VersionID, j.SessionID = l.Head.ID, l.Head.Session
	}
	return j
}

func whyLeft(l undo.Left) string {
	switch {
	case l.Why != "":
		return l.Why
	case l.InTheWay == l.Path:
		return "something else is there by now"
	case l.InTheWay != "":
		return quote.Name(l.InTheWay) + " is in its way"
	case l.Head == nil:
		return "it was removed meanwhile"
	case l.Head.Session != "":
		return fmt.Sprintf("session %s has changed it meanwhile, in commit %d", quote.Name(l.Head.Session), l.Head.Seq)
	}
	return fmt.Sprintf("%s has changed it meanwhile, in commit %d", quote.Name(l.Head.Actor.String()), l.Head.Seq)
}

// conflictLine is an unchanged memory, and the conflict that keeps its planned content.
type conflictLine struct {
	Type string `json:"type"`
	N    int    `json:"conflict,omitempty"`
	Path string `json:"path"`
	Why  string `json:"why"`
}

// printConflicts lists memories that stay unchanged because others have changed them, too.
func printConflicts(a *app.App, conflicts []conflictLine) error {
	for _, k := range conflicts {
		if a.JSON {
			if err := a.PrintJSON(k); err != nil {
				return err
			}
			continue
		}
		kept := ""
		if k.N > 0 {
			kept = fmt.Sprintf(" (kept as conflict %d)", k.N)
		}
		a.Printf("%s  %s: %s%s\n", a.Paint(term.Red, "conflict"), quote.Text(k.Path), quote.Text(k.Why), kept)
	}
	return nil
}

// stepsJSON is the sum of the changes.
type stepsJSON struct {
	Type      string                `json:"type"`
	StoreID   string                `json:"memory_store_id"`
	Seq       *uint64               `json:"restored_seq,omitempty"`
	SessionID string                `json:"session_id,omitempty"`
	Commits   int                   `json:"commits"`
	FirstSeq  uint64                `json:"first_seq,omitempty"`
	LastSeq   uint64                `json:"last_seq,omitempty"`
	Changes   map[versionlog.Op]int `json:"changes"` // by operation
	Left      []leftJSON            `json:"left,omitempty"`
}

func newStepsJSON(st *memory.Store, what string, done *session.Steps) stepsJSON {
	j := stepsJSON{Type: what, StoreID: st.Info().ID, Commits: done.Commits, FirstSeq: done.First, LastSeq: done.Last, Changes: done.Changes}
	for _, l := range done.Left {
		j.Left = append(j.Left, newLeftJSON(l))
	}
	return j
}

// changesText is the number of changes and their commits, in words.
func changesText(done *session.Steps) string {
	var parts []string
	for _, op := range []versionlog.Op{versionlog.OpCreated, versionlog.OpModified, versionlog.OpRenamed, versionlog.OpDeleted} {
		if n := done.Changes[op]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, op))
		}
	}
	in := fmt.Sprintf("in one commit, sequence number %d", done.Last)
	if done.Commits > 1 {
		in = fmt.Sprintf("in %d commits, sequence numbers %d to %d", done.Commits, done.First, done.Last)
	}
	return strings.Join(parts, ", ") + " " + in
}

// commitsAre is a number of commits, in words of a sentence.
func commitsAre(n int) string {
	if n == 1 {
		return "1 commit is"
	}
	return fmt.Sprintf("%d commits are", n)
}

// adviseSteps says how to confirm changes that the store's guard holds back.
func adviseSteps(err error) error {
	if errors.Is(err, versionlog.ErrGuarded) {
		return app.Advised(fmt.Errorf("%w; if it is meant, the same with --confirm does it", err))
	}
	return err
}
