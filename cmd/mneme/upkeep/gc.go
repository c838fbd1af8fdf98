package upkeep

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/forget"
	"mneme/internal/bytesize"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/versionlog"
)

// GcCmd is the command `mneme gc`.
type GcCmd struct {
	Stores []string      `arg:"" optional:"" name:"store" help:"Names or ids. Default: all stores, archived ones too."`
	Grace  time.Duration `default:"24h" placeholder:"DURATION" help:"How long ago what goes must have been stored or replaced. Longer than an import takes, and than files are held open for writing. Default: ${default}."`
	DryRun bool          `help:"Show what would go, and change nothing."`

	TrustClock bool `help:"Judge ages although the newest versions give reason to doubt the clock."`
}

func (c *GcCmd) Help() string {
	return `Nothing is erased from a history but by this command, and by "mneme redact". It erases the versions that the store's rule lets go of, which "mneme store update --keep-days --keep-versions" sets: those that are no current version of a memory, that were replaced more than --keep-days ago, and that are not among the newest --keep-versions. Where both are set, what either of them keeps stays; where none is set, everything stays. The history says which versions are gone, when, and by which rule; its chain verifies.

It also removes contents that no version has, as of an import that was cut off, what processes that were killed have left of unfinished snapshots in a bucket, conflicts that are older than 30 days, and files that killed processes have left, and gives the disk back what they took. What was stored or replaced less than 24 hours ago stays (--grace): a save or an import that has not ended may need it. So a second run a day later may remove more. Mounts and other commands may go on meanwhile. To run it again is safe, and goes on where it was cut off.

Of stores on AWS it reads the whole history in the bucket first. It takes credentials that may delete from the bucket, and old versions of objects, as those of the policy redact of "mneme setup --print". What others may not delete is told of, and removed by the next run with those. A store without any commit, such as one into which another machine imports, keeps all contents.

It refuses to judge ages by a clock that is wrong: one that differs from the clock of the files, or of DynamoDB, by more than a few seconds. Where the stores are on one machine, it also refuses while the newest version is ahead of the clock, or while nothing was written to any store for 30 days; --trust-clock says that the clock is right.

With the URL of a server it does nothing: it is to run where the server is, with the URL of the stores.

Examples:

    mneme store update notes --keep-days 90 --keep-versions 20
    mneme gc notes --dry-run
    mneme gc`
}

func (c *GcCmd) Run(ctx context.Context, a *app.App) error {
	if c.Grace < 0 {
		return app.Usagef("--grace %v: want a duration of 0 or more, such as 24h", c.Grace)
	}
	opts := app.Writing
	if c.DryRun {
		opts = app.Reading
	}
	return a.WithLibrary(ctx, opts, func(lib *backend.Library) error {
		if err := lib.MayCollect(); err != nil {
			return err
		}
		if err := c.checkClock(ctx, lib); err != nil {
			return err
		}
		stores, err := lib.AllStores(ctx)
		if err == nil {
			err = forget.RefuseUnfinished(app.Importing(lib), stores)
		}
		if err != nil {
			return err
		}
		var errs []error
		if len(c.Stores) > 0 {
			stores = nil
		}
		for _, ref := range c.Stores {
			s, err := lib.FindStore(ctx, ref)
			if err == nil {
				stores = append(stores, s)
			}
			errs = append(errs, err)
		}
		for _, s := range stores {
			st, err := app.OpenInfo(ctx, lib, s, opts)
			if err == nil {
				err = c.collect(ctx, a, lib, st)
			}
			errs = append(errs, err)
			if err := errors.Join(a.Out.Flush(), ctx.Err()); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
		if c.Grace > 0 && len(stores) > 0 && !a.JSON {
			a.Printf("What was stored or replaced less than %s ago stays in any case (--grace).\n", graceText(c.Grace))
		}
		if !c.DryRun {
			freed, err := lib.Shrink(ctx)
			errs = append(errs, err, c.printSpace(a, freed))
		}
		return errors.Join(errs...)
	})
}

// checkClock is the advice about a clock by which versions would go too early, or never.
func (c *GcCmd) checkClock(ctx context.Context, lib *backend.Library) error {
	err := lib.CheckClock(ctx)
	switch {
	case errors.Is(err, memory.ErrClockDoubt) && c.TrustClock:
		return nil
	case errors.Is(err, memory.ErrClockDoubt):
		return fmt.Errorf("%w; nothing was erased; if `date` is right, run it again with --trust-clock, else set the clock first", err)
	case errors.Is(err, memory.ErrClock):
		return fmt.Errorf("%w; nothing was erased; set the clock, as `timedatectl set-ntp true` does, and run it again", err)
	}
	return err
}

// graceText writes a duration without final units of zero: 24h.
func graceText(d time.Duration) string {
	text := d.String()
	if short, cut := strings.CutSuffix(text, "m0s"); cut {
		text = short + "m"
	}
	if short, cut := strings.CutSuffix(text, "h0m"); cut {
		text = short + "h"
	}
	return text
}

// gcJSON is the sum of the data that has gone from a store, or would.
type gcJSON struct {
	Type      string               `json:"type"`
	Store     string               `json:"store"`
	DryRun    bool                 `json:"dry_run"`
	Rule      versionlog.Retention `json:"retention"`
	Versions  int                  `json:"versions"`       // that the rule lets go of
	Sequence  []uint64             `json:"seqs"`           // of the events that say so
	Contents  int                  `json:"contents"`       // that only those had
	Bytes     int64                `json:"content_bytes"`  // of those
	Orphans   int                  `json:"orphans"`        // contents that no version had
	Orphaned  int64                `json:"orphan_bytes"`   // of those
	Conflicts int                  `json:"conflicts"`      // that have expired
	Temporary int                  `json:"temporary"`      // files that killed processes have left; not counted in a dry run
	Pages     int                  `json:"pages"`          // of snapshots in a bucket that were not finished
	Places    []forget.Place       `json:"places"`         // of the versions, and what has become of them there
	Left      []forget.Place       `json:"left,omitempty"` // where something of the versions still is
}

// collect collects in one store, and reports the result.
func (c *GcCmd) collect(ctx context.Context, a *app.App, lib *backend.Library, st *memory.Store) error {
	slug := st.Info().Slug
	bar := a.Progress("gc " + slug)
	defer bar.Clear()
	now, _ := lib.Clock()
	expired, err := forget.FindExpired(ctx, st, now, c.Grace, func(done, total int) { bar.Show("commits", done, total) })
	if err != nil {
		return err
	}
	j := gcJSON{Type: "gc", Store: slug, DryRun: c.DryRun, Rule: expired.Rule, Versions: len(expired.Versions), Contents: expired.Contents, Bytes: expired.Bytes, Sequence: []uint64{}, Places: []forget.Place{}}
	var errs []error
	if !c.DryRun && (expired.Rule != versionlog.Retention{}) {
		done, err := forget.LetGo(ctx, st, expired, func(done, total int) { bar.Show("versions", done, total) })
		errs = append(errs, err)
		j.add(done)
	}
	garbage, err := lib.Collect(ctx, st.Info().ID, &backend.CollectOptions{Grace: c.Grace, Keep: c.DryRun, Progress: bar.Show})
	errs = append(errs, err)
	if garbage != nil {
		j.Orphans, j.Orphaned, j.Conflicts, j.Temporary, j.Pages = garbage.Contents, garbage.Bytes, garbage.Conflicts, garbage.Temporary, garbage.Pages
		if garbage.Left != nil {
			j.Left = append(j.Left, forget.Place{Place: "contents of no version, or pages of no snapshot, as the bucket keeps what was deleted", Left: garbage.Left.Error()})
		}
	}
	bar.Clear()
	err = errors.Join(errs...)
	if err == nil && len(j.Left) > 0 {
		err = app.ErrNotYet
	}
	if err != nil {
		errs = []error{fmt.Errorf("gc %s: %w", slug, err)}
	}
	if a.JSON {
		return errors.Join(append(errs, a.PrintJSON(j))...)
	}
	j.print(a)
	return errors.Join(errs...)
}

// add adds the erased versions, even if an error followed.
func (j *gcJSON) add(done *forget.Receipt) {
	j.Versions, j.Contents = 0, 0
	if done == nil {
		return
	}
	j.Versions, j.Contents = len(done.Versions), done.Erased
	if done.Erased == 0 {
		j.Bytes = 0
	}
	j.Sequence, j.Places = done.Sequence, done.Places
	j.Left = append(j.Left, done.Left()...)
}

func (j *gcJSON) print(a *app.App) {
	verb := "erased"
	if j.DryRun {
		verb = "would be erased"
	}
	said := []string{"keeps " + j.Rule.String()}
	if j.Versions > 0 {
		said = append(said, fmt.Sprintf("%s %s, and %s (%s) with them", plural.Of(j.Versions, "version"), verb, plural.Of(j.Contents, "content"), bytesize.Text(uint64(j.Bytes))))
	}
	verb = strings.Replace(verb, "erased", "removed", 1)
	if j.Orphans > 0 {
		said = append(said, fmt.Sprintf("%s of no version (%s) %s", plural.Of(j.Orphans, "content"), bytesize.Text(uint64(j.Orphaned)), verb))
	}
	if j.Pages > 0 {
		said = append(said, fmt.Sprintf("%s of unfinished snapshots %s", plural.Of(j.Pages, "page"), verb))
	}
	if j.Conflicts > 0 {
		said = append(said, fmt.Sprintf("%s %s", plural.Of(j.Conflicts, "expired conflict"), verb))
	}
	if j.Temporary > 0 {
		said = append(said, fmt.Sprintf("%s %s", plural.Of(j.Temporary, "temporary file"), verb))
	}
	if len(said) == 1 {
		said = append(said, "nothing to remove")
	}
	a.Printf("%s: %s\n", j.Store, strings.Join(said, "; "))
	for _, p := range j.Left {
		a.Printf("  NOT YET  %s: %s\n", p.Place, quote.Text(p.Left))
	}
}

// printSpace prints the space that the library's files have lost.
func (c *GcCmd) printSpace(a *app.App, freed int64) error {
	switch {
	case a.JSON:
		return a.PrintJSON(struct {
			Type  string `json:"type"`
			Freed int64  `json:"freed_bytes"`
		}{"gc_space", freed})
	case freed > 0:
		a.Printf("log.db is %s smaller\n", bytesize.Text(uint64(freed)))
	}
	return nil
}
