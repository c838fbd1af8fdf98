package agent

import (
	"context"
	"fmt"
	"strings"

	"mneme/adopt"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/daemon"
	"mneme/internal/plural"
	"mneme/internal/quote"
)

// usePlanJSON is a plan as --json writes it.
type usePlanJSON struct {
	adopt.Record
	DryRun      bool     `json:"dry_run"`
	Files       int      `json:"files"`
	Bytes       int64    `json:"bytes"`
	Executables []string `json:"executables,omitempty"`
	Attributes  []string `json:"attributes,omitempty"` // files that have extended ones
	MakesStore  bool     `json:"makes_store"`
}

// printUse prints the plan.
func printUse(a *app.App, p *adopt.Plan, dryRun bool) error {
	r, f := &p.Record, p.Files
	if a.JSON {
		return a.PrintJSON(usePlanJSON{*r, dryRun, len(f.Files), f.Bytes, f.Programs, f.Attributes, p.Make != nil})
	}
	fields := [][2]string{{"Directory", fmt.Sprintf("%s: %s, %s, in %s", quote.Cell(r.Dir), plural.Of(len(f.Files), "file"), plural.Of(f.Bytes, "byte"), directories(len(f.Dirs)+1))}}
	if r.Inode == 0 {
		fields[0][1] = quote.Cell(r.Dir) + ", which is not there yet"
	}
	if r.WrittenFor != "" {
		fields = append([][2]string{{"Agent", r.Agent + ", as of version " + r.WrittenFor}}, fields...)
	}
	store := r.Store + ", at " + r.URL
	if p.Make != nil {
		store += ", which is made"
	}
	fields = append(fields, [2]string{"Store", store})
	a.PrintFields(fields)
	a.Printf("\nWhat is done:\n")
	step := 0
	say := func(format string, args ...any) {
		step++
		a.Printf("  %d. %s\n", step, quote.Line(fmt.Sprintf(format, args...)))
	}
	if len(f.Files)+len(f.Dirs) > 0 {
		say("Each file becomes a memory of the store, the oldest first.")
	}
	if r.Backup != "" {
		say("%s is renamed to %s, as it is.", quote.Cell(r.Dir), quote.Cell(r.Backup))
	}
	if r.Git != "" {
		say("%s is copied to %s, and a memory /%[1]s names that.", adopt.GitName, quote.Cell(r.Git))
	}
	say("The store is mounted at %s.", quote.Cell(r.Mount))
	if len(f.Files) > 0 {
		a.Printf("     Its files have the times of their versions, which are new; those of now are in the metadata of the versions.\n")
	}
	if s := r.Setting; s != nil {
		say("%s in %s becomes %q. %s stays as it is.", strings.Join(s.Key, "."), quote.Cell(s.File), s.After, quote.Cell(r.Dir))
	}
	if n := len(f.Programs); n > 0 {
		a.Printf("\nA store knows no modes: %s can be executed now and cannot then:\n", plural.Of(n, "file"))
		printNames(a, f.Programs)
	}
	if n := len(f.Attributes); n > 0 {
		a.Printf("\nNor does it keep the extended attributes of %s:\n", plural.Of(n, "file"))
		printNames(a, f.Attributes)
	}
	for _, warning := range p.Found.Warn {
		a.Printf("\n%s.\n", quote.Text(warning))
	}
	if r.Inode != 0 && r.Setting == nil && f.IsOpen {
		a.Printf("\nOther users can read the directory now, and cannot then.\n")
	}
	a.Printf("\n`%s` brings everything back, and with --keep-changes what was changed since.\n", undoCommand(r, a))
	return nil
}

// printNames prints the first of some files, one a line, and the number of the others.
func printNames(a *app.App, names []string) {
	n := min(len(names), 5)
	for _, name := range names[:n] {
		a.Printf("  %s\n", quote.Cell(name))
	}
	if more := len(names) - n; more > 0 {
		a.Printf("  %d more\n", more)
	}
}

func directories(n int) string {
	if n == 1 {
		return "1 directory"
	}
	return fmt.Sprintf("%d directories", n)
}

// command is the `mneme use` command for a record, escaped.
func command(r *adopt.Record, a *app.App) string {
	return quote.Text(a.Command() + " use " + term.ShellWord(r.Dir))
}

// undoCommand is the command that undoes a record.
func undoCommand(r *adopt.Record, a *app.App) string {
	return command(r, a) + " --undo"
}

// printUsed describes a directory in use.
func printUsed(a *app.App, r *adopt.Record) error {
	if a.JSON {
		return a.PrintJSON(r)
	}
	a.Printf("\n%s is at %s: %s.\n", quote.Cell(r.Store), a.Paint(term.Bold, quote.Cell(r.Mount)), plural.Of(r.Imported.Files, "file")+" imported")
	if s := r.Setting; s != nil {
		a.Printf("%s has %s = %q.\n", quote.Cell(s.File), strings.Join(s.Key, "."), quote.Text(s.After))
	}
	if r.Backup != "" {
		a.Printf("What was there is at %s.\n", quote.Cell(r.Backup))
	}
	a.Printf("After a restart of the machine `%s` mounts it again.\n`%s` brings everything back, and with --keep-changes what was changed since.\n", command(r, a), undoCommand(r, a))
	return nil
}

// confirmUndo asks a person; that person may not know that later changes of the store will not be
// in the directory.
func confirmUndo(ctx context.Context, a *app.App, r *adopt.Record) error {
	since, err := r.Since(ctx, app.OpenURL)
	if err != nil || since == 0 { // what cannot be read is no reason to keep the directory
		return nil
	}
	return a.Confirm(fmt.Sprintf("Store %s has %s made since, which will not be in %s; --keep-changes brings them there", quote.Cell(r.Store), plural.Of(since, "change"), quote.Cell(r.Dir)), "yes")
}

// undoUse undoes a record, and reports the later changes of the store.
func undoUse(ctx context.Context, a *app.App, u *adopt.Adoption) error {
	r := u.Record
	here, err := daemon.MountDir(".")
	isHere := err == nil && adopt.IsBelow(here, r.Mount)
	if err := u.Undo(ctx); err != nil {
		return err
	}
	since, err := r.Since(ctx, app.OpenURL)
	if err != nil {
		return fmt.Errorf("all is as it was, but what was changed since in store %s is not known: %w", r.Store, err)
	}
	if a.JSON {
		return a.PrintJSON(struct {
			Undone  string            `json:"undone"`
			Store   string            `json:"store"`
			Changes uint64            `json:"changes_since"`
			Kept    []daemon.LeftFile `json:"kept,omitempty"`
		}{r.Dir, r.Store, since, u.Kept})
	}
	if r.Keep {
		a.Printf("%s is back, with %s made since in store %s.\n", quote.Cell(r.Dir), plural.Of(since, "change"), quote.Cell(r.Store))
	} else {
		a.Printf("%s is as it was.\n", quote.Cell(r.Dir))
	}
	if isHere {
		a.Printf("You are still in what was mounted, which is gone: `cd %s`\n", term.ShellWord(r.Dir))
	}
	view.PrintLeft(a, u.Kept)
	if r.Linked {
		a.Printf("What was committed since with git is in %s.\n", quote.Cell(r.Git))
	}
	switch {
	case r.Keep:
	case since > 0:
		a.Printf("Store %s has %s made since, which %s not there: `%s log %[1]s`\n", quote.Cell(r.Store), plural.Of(since, "change"), isOrAre(since), a.Command())
	case r.StoreID != "":
		a.Printf("Store %s stays; nothing was changed in it since.\n", quote.Cell(r.Store))
	}
	return nil
}

func isOrAre(n uint64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// listUses lists the directories in use.
func listUses(a *app.App, all []*adopt.Record) error {
	t := &term.Table{Header: []string{"AGENT", "DIRECTORY", "STORE", "MOUNT", "STATE"}, Shrink: []string{"STORE"}, Paths: []string{"DIRECTORY", "MOUNT"}}
	for _, r := range all {
		_, mounted, err := adopt.MountedAt(r.Mount)
		if err != nil {
			return err
		}
		state := "mounted"
		switch {
		case !r.Finished:
			state = "cut off: --undo"
		case !mounted:
			state = "not mounted"
		}
		if a.JSON {
			if err := a.PrintJSON(struct {
				*adopt.Record
				Mounted bool `json:"mounted"`
			}{r, mounted}); err != nil {
				return err
			}
			continue
		}
		t.Add(r.Agent, r.Dir, r.Store, r.Mount, state)
	}
	if a.JSON {
		return nil
	}
	if len(all) == 0 {
		a.Printf("Nothing is in use.\n")
		return nil
	}
	a.PrintTable(t)
	return nil
}
