package past

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/versionlog"
)

// ShowCmd is the command `mneme show`.
type ShowCmd struct {
	What    string `arg:"" help:"Version id; or STORE:/path of a memory; or STORE."`
	Version string `arg:"" optional:"" help:"Of a memory: version id or sequence number, by default the newest. Of a store: the sequence number of a commit."`
	Store   string `placeholder:"STORE" help:"The store of which the first argument is a sequence number."`
}

func (c *ShowCmd) Help() string {
	return `Examples:

    mneme show notes:/todo.md       (the newest version)
    mneme show notes:/todo.md 7     (that of sequence number 7)
    mneme show notes 7              (everything that commit changed, also of the store itself)
    mneme show memver_0000000000001005zvgzwkzawr`
}

func (c *ShowCmd) Run(ctx context.Context, a *app.App) error {
	return a.Page(func() error { return c.show(ctx, a) })
}

func (c *ShowCmd) show(ctx context.Context, a *app.App) error {
	_, notNumber := strconv.ParseUint(c.What, 10, 64)
	_, _, notID := versionlog.LocateVersion(c.What)
	switch {
	case c.Store != "" && (notNumber != nil || c.Version != ""):
		return app.Usagef("--store goes with one sequence number; want `mneme show STORE NUMBER`")
	case c.Store != "":
		return c.showCommit(ctx, a, c.Store, c.What)
	case strings.Contains(c.What, ":"), app.LooksLikePath(c.What):
		return c.showMemory(ctx, a)
	case notID == nil && c.Version == "":
		return c.showID(ctx, a)
	case c.Version != "":
		return c.showCommit(ctx, a, c.What, c.Version)
	case notNumber == nil:
		return app.Usagef("a sequence number needs its store; want `mneme show STORE %s`", c.What)
	case strings.HasPrefix(c.What, view.VersionPrefix):
		return app.Usagef("%w", notID)
	}
	return app.Usagef("%q is no version id; want memver_…, or STORE:/path, or STORE and a sequence number", c.What)
}

// showMemory shows one version of a memory.
func (c *ShowCmd) showMemory(ctx context.Context, a *app.App) error {
	p, err := app.ParseMemory(c.What)
	if err != nil {
		return err
	}
	return a.WithPlace(ctx, p, app.Reading, func(st *memory.Store) error {
		path, version, err := app.OneVersion(ctx, st, p.Path, c.Version)
		if err != nil {
			return err
		}
		var v *versionlog.Version
		if version == "" {
			v, err = view.NewestVersion(ctx, st, path)
		} else {
			v, err = view.VersionRef(ctx, st, path, version)
		}
		if err != nil {
			return app.ExplainMissing(ctx, st, path, err)
		}
		return showVersion(ctx, a, st, *v)
	})
}

// showCommit shows everything that the commit of a sequence number changed.
func (c *ShowCmd) showCommit(ctx context.Context, a *app.App, store, number string) error {
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return app.Usagef("%q is no sequence number of store %s; `mneme log %s` lists them", number, store, term.ShellWord(store))
	}
	return a.WithStore(ctx, store, app.Reading, func(st *memory.Store) error {
		commit, err := st.Commit(ctx, seq)
		if errors.Is(err, versionlog.ErrNotFound) {
			return fmt.Errorf("sequence number %d of store %s: %w; `mneme log %[2]s` lists them", seq, st.Info().Slug, versionlog.ErrNotFound)
		}
		if err != nil {
			return err
		}
		if commit.Event != nil {
			return showEvent(a, st, commit)
		}
		for i, v := range commit.Versions {
			if i > 0 && !a.JSON {
				a.Printf("\n")
			}
			if err := showVersion(ctx, a, st, v); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *ShowCmd) showID(ctx context.Context, a *app.App) error {
	return a.WithLibrary(ctx, app.Reading, func(lib *backend.Library) error {
		s, v, err := lib.FindVersion(ctx, c.What)
		if err != nil {
			return err
		}
		st, err := lib.Open(ctx, s.ID, nil)
		if err != nil {
			return err
		}
		return showVersion(ctx, a, st, v)
	})
}

// showEvent shows an event of the whole store.
func showEvent(a *app.App, st *memory.Store, c *versionlog.Commit) error {
	if a.JSON {
		return a.PrintJSON(jsonview.NewCommit(c))
	}
	fields := [][2]string{
		{"Store", st.Info().Slug}, {"Change", eventChange(c.Event)}, {"Sequence", strconv.FormatUint(c.Seq, 10)},
		{"Time", term.LocalTime(c.Time)}, {"By", c.Actor.String()},
	}
	if c.Message != "" {
		fields = append(fields, [2]string{"Message", c.Message})
	}
	for _, text := range eventFields(c.Event) {
		fields = append(fields, [2]string{"Field", text})
	}
	a.PrintFields(fields)
	return nil
}

func showVersion(ctx context.Context, a *app.App, st *memory.Store, v versionlog.Version) error {
	before, err := replacedBy(ctx, st, v.Path, v)
	if err != nil {
		return err
	}
	diff, gone, err := changeTo(ctx, st, before, &v)
	redacted := errors.Is(err, memory.ErrRedacted)
	if err != nil && !redacted {
		return err
	}
	if a.JSON {
		return a.PrintJSON(struct {
			jsonview.Version
			Diff       string `json:"diff"`
			BeforeGone string `json:"before_gone,omitempty"`
		}{jsonview.NewVersion(st.Info().ID, v), diff, whyGone(gone)})
	}
	fields := [][2]string{
		{"Version", v.ID}, {"Memory", v.MemoryID}, {"Place", st.Info().Slug + ":" + view.ShownPath(v)},
		{"Change", string(v.Op)}, {"Sequence", strconv.FormatUint(v.Seq, 10)},
		{"Time", term.LocalTime(v.Time)}, {"By", v.Actor.String()},
	}
	for _, f := range [][2]string{
		{"Session", v.Session}, {"Renamed from", v.From}, {"Parent", v.Parent}, {"Message", v.Message},
	} {
		if f[1] != "" {
			fields = append(fields, f)
		}
	}
	switch {
	case redacted:
		fields = append(fields, [2]string{"Content", err.Error()})
	case v.IsDir():
		fields = append(fields, [2]string{"Size", "-"}, [2]string{"SHA-256", "-"})
	case v.Live():
		fields = append(fields, [2]string{"Size", strconv.FormatInt(v.Size, 10)}, [2]string{"SHA-256", v.Digest.String()})
	}
	if gone != nil {
		fields = append(fields, [2]string{"Before", gone.Error()})
	}
	a.PrintFields(fields)
	if diff != "" {
		a.Printf("\n")
		a.PrintDiff(diff)
	}
	return notOnPurpose(gone)
}
