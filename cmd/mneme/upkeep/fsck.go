// Package upkeep holds the commands that keep stores and machines sound: fsck, gc, redact, scan,
// doctor and setup. It uses app and view. Read fsck.go first.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/errkind"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/verify"
	"mneme/versionlog"
)

// problemJSON is a finding of fsck.
type problemJSON struct {
	Type     string `json:"type"`
	Store    string `json:"store"`
	Kind     string `json:"kind"`
	Finding  string `json:"finding"`
	Subject  string `json:"subject"`
	Problem  string `json:"problem"`
	Advice   string `json:"advice"`
	Repaired bool   `json:"repaired"`
}

// fsckJSON is the sum of a store's check.
type fsckJSON struct {
	Type     string `json:"type"`
	Store    string `json:"store"`
	ID       string `json:"id"`
	Commits  int    `json:"commits"`
	Versions int    `json:"versions"`
	Memories int    `json:"memories"`
	Blobs    int    `json:"blobs"`
	Bytes    int64  `json:"bytes_read"`
	Problems int    `json:"problems"`
	Repaired int    `json:"repaired"`

	Ahead string `json:"ahead,omitempty"` // how far the newest commit is ahead of the clock

	unproved bool // it does not have the tip of --against
}

func (c *FsckCmd) Run(ctx context.Context, a *app.App) (err error) {
	defer func() {
		if errkind.Of(err) == errkind.Corrupt { // to look with fsck is no advice here
			err = app.Advised(err)
		}
	}()
	at, err := app.Locate(a.URL)
	if err != nil {
		return err
	}
	if c.noted, err = c.readNoted(); err != nil {
		return err
	}
	if c.RebuildIndex {
		if err := c.rebuild(ctx, a, at); err != nil {
			return err
		}
	}
	lost, err := c.losses(ctx, a, at)
	if err != nil {
		return err
	}
	return c.checkAll(ctx, a, at, lost)
}

// checkAll verifies the shared data and the stores, and reports which stores lost
// something.
func (c *FsckCmd) checkAll(ctx context.Context, a *app.App, at *backend.Location, lost []backend.Loss) (err error) {
	var found damage
	for _, l := range lost {
		if l.Store.Slug == "" { // it is not among the stores
			found.bad++
			if err := printProblem(a, l.Store.ID, lossProblem(l)); err != nil {
				return err
			}
		}
	}
	defer func() {
		if found != (damage{}) && !errors.Is(err, app.ErrDamaged) && !errors.Is(err, versionlog.ErrRewritten) {
			err = errors.Join(fmt.Errorf("%w: see above for what to do", app.ErrDamaged), err)
		}
	}()
	lib, err := app.OpenAt(ctx, at, backend.Options{ReadOnly: !c.Repair, Direct: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lib.Close()) }()
	if !c.Quick {
		if found.shared, err = checkShared(ctx, a, lib); err != nil {
			return err
		}
	}
	stores, err := c.stores(ctx, lib)
	if err != nil {
		return err
	}
	if len(stores) == 0 && found == (damage{}) && !a.JSON {
		a.Printf("No stores.\n")
	}
	all := len(stores) + found.bad
	for _, s := range stores {
		sum, err := c.check(ctx, a, lib, s, lost)
		if err != nil {
			return err
		}
		if sum.Problems > sum.Repaired {
			found.bad++
		}
		if sum.unproved && sum.Problems == sum.Repaired+1 && !found.shared { // sound in itself
			return app.Advised(fmt.Errorf("%w: the history of store %s does not have the tip %s", versionlog.ErrRewritten, s.Slug, view.TipText(c.noted.Tip)))
		}
	}
	return found.err(all, at)
}

// damage is the sum of the findings of checkAll.
type damage struct {
	bad    int  // stores
	shared bool // what they share
}

func (d damage) err(all int, at *backend.Location) error {
	if d == (damage{}) {
		return nil
	}
	shared, advice := "", ""
	if d.shared {
		shared = ", and what they share"
	}
	if at.Recovery.Backup != nil {
		advice = "; if this is a copy that was made of stores in use, have `mneme backup` make it"
	}
	return fmt.Errorf("%w: see above for what to do (%d of %d stores%s)%s", app.ErrDamaged, d.bad, all, shared, advice)
}

// checkShared prints findings in the data that all stores share, and reports whether there
// were any.
func checkShared(ctx context.Context, a *app.App, lib *backend.Library) (found bool, err error) {
	var printErr error
	err = lib.CheckShared(ctx, func(p verify.Problem) {
		found = true
		if err := printProblem(a, "", p); printErr == nil {
			printErr = err
		}
	})
	return found, errors.Join(err, printErr)
}

func (c *FsckCmd) rebuild(ctx context.Context, a *app.App, at *backend.Location) error {
	if at.Recovery.Rebuild == nil {
		return app.Usagef("%v: the index of an embedded store stands in one file with its records; there is nothing to rebuild it from but a backup", at)
	}
	bar := a.Progress("rebuild")
	err := at.Recovery.Rebuild(ctx, c.Store, bar.Show)
	bar.Clear()
	return err
}

func (c *FsckCmd) stores(ctx context.Context, lib *backend.Library) ([]versionlog.Store, error) {
	if c.Store == "" {
		return lib.AllStores(ctx)
	}
	s, err := lib.FindStore(ctx, c.Store)
	return []versionlog.Store{s}, err
}

// check verifies one store and prints its findings.
func (c *FsckCmd) check(ctx context.Context, a *app.App, lib *backend.Library, s versionlog.Store, lost []backend.Loss) (fsckJSON, error) {
	if err := checkNoted(c.noted, s); err != nil {
		return fsckJSON{}, err
	}
	st, err := lib.Open(ctx, s.ID, nil)
	if err != nil {
		return fsckJSON{}, err
	}
	bar := a.Progress(s.Slug)
	defer bar.Clear()
	out := fsckJSON{Type: "fsck", Store: s.Slug, ID: s.ID}
	var printErr error
	report := func(p verify.Problem) {
		out.Problems++
		if p.Repaired {
			out.Repaired++
		}
		out.unproved = out.unproved || p.Kind == verify.ProblemHistory
		bar.Clear()
		p.Do = app.AdviseProblem(lib.Location, s.Slug, p)
		if err := printProblem(a, s.Slug, p); printErr == nil {
			printErr = err
		}
	}
	for _, l := range lost {
		if l.Store.ID == s.ID {
			report(lossProblem(l))
		}
	}
	if err := c.witnessed(ctx, a, lib, s, lost, report); err != nil {
		return out, err
	}
	opts := &verify.Options{PresenceOnly: c.Quick, Progress: bar.Show, DoIndex: doIndex(lib.Location)}
	if c.noted != nil {
		opts.Against = &c.noted.Tip
	}
	if c.Repair {
		opts.Salvage = lib.Salvage
	}
	sum, err := c.look(ctx, lib, st, s.ID, opts, report)
	if err = errors.Join(err, printErr); err != nil {
		return out, err
	}
	if out.Ahead, err = aheadOfClock(ctx, lib, st); err != nil {
		return out, err
	}
	out.Commits, out.Versions, out.Memories, out.Blobs, out.Bytes = sum.Commits, sum.Versions, sum.Memories, sum.Blobs, sum.Bytes
	bar.Clear()
	return out, printFsck(a, out)
}

// look verifies a store and its log's data. A repaired finding is checked after its repair.
func (c *FsckCmd) look(ctx context.Context, lib *backend.Library, st *memory.Store, id string, opts *verify.Options, report func(verify.Problem)) (verify.Verification, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var kept []verify.Problem
	check := sync.OnceValue(func() error {
		if c.Quick {
			return nil
		}
		return lib.Check(ctx, id, func(p verify.Problem) { kept = append(kept, p) })
	})
	var beside sync.WaitGroup
	if !c.Repair {
		beside.Go(func() { _ = check() })
	}
	sum, err := verify.Store(ctx, st, opts, report)
	if err != nil {
		cancel()
		beside.Wait()
		return sum, err
	}
	err = check()
	for _, p := range kept {
		report(p)
	}
	return sum, err
}

// printProblem prints a finding at once, in one line. Without a store, the finding is in
// shared data.
func printProblem(a *app.App, store string, p verify.Problem) error {
	if a.JSON {
		if err := a.PrintJSON(problemJSON{
			Type: "problem", Store: store, Kind: string(p.Kind), Finding: string(p.Finding), Subject: p.Subject, Problem: p.What, Advice: p.Do, Repaired: p.Repaired,
		}); err != nil {
			return err
		}
		return a.Out.Flush()
	}
	if store == "" {
		store = "all stores"
	}
	word, advice := a.Paint(term.Red, "problem"), "; "+p.Do
	if p.Repaired {
		word, advice = a.Paint(term.Yellow, "repaired"), ""
	}
	a.Printf("%s: %s: %s\n", quote.Text(store), word, quote.Text(p.Subject+": "+p.What+advice))
	return a.Out.Flush()
}

func printFsck(a *app.App, f fsckJSON) error {
	if a.JSON {
		return a.PrintJSON(f)
	}
	verdict := a.Paint(term.Green, "no problems")
	switch {
	case f.Problems > f.Repaired:
		verdict = a.Paint(term.Red, plural.Of(f.Problems, "problem"))
		if f.Repaired > 0 {
			verdict += fmt.Sprintf(", %d of them repaired", f.Repaired)
		}
	case f.Problems > 0:
		verdict = a.Paint(term.Yellow, plural.Of(f.Problems, "problem")+", all repaired")
	}
	a.Printf("%s: %s, %s, %s, %s: %s\n", quote.Text(f.Store), plural.Of(f.Commits, "commit"), plural.Of(f.Versions, "version"),
		plural.Of(f.Memories, "memory"), plural.Of(f.Blobs, "blob"), verdict)
	if f.Ahead != "" {
		a.Printf("%s: %s: %s\n", quote.Text(f.Store), a.Paint(term.Yellow, "warning"), f.Ahead)
	}
	return a.Out.Flush()
}

// aheadOfClock describes the consequences if the store's newest version is ahead of the
// clock; else "".
func aheadOfClock(ctx context.Context, lib *backend.Library, st *memory.Store) (string, error) {
	tip, err := st.Tip(ctx)
	if err != nil {
		return "", err
	}
	now, _ := lib.Clock()
	ahead := tip.Time.Sub(now)
	if ahead <= versionlog.MaxSkew {
		return "", nil
	}
	return fmt.Sprintf("the newest version is of %s, %s the clock; until then new versions follow it by a microsecond each, and no quota bounds the versions within an hour", tip.Time.Format(time.RFC3339), memory.Apart(ahead)), nil
}
