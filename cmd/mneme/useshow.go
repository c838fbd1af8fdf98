package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mneme/backend"
	"mneme/daemon"
	"mneme/internal/quote"
	"mneme/memory"
)

// usePlanJSON is a plan as --json writes it.
type usePlanJSON struct {
	useRecord
	DryRun      bool     `json:"dry_run"`
	Files       int      `json:"files"`
	Bytes       int64    `json:"bytes"`
	Executables []string `json:"executables,omitempty"`
	Attributes  []string `json:"attributes,omitempty"` // files that have extended ones
	MakesStore  bool     `json:"makes_store"`
}

// printUse says what would be done.
func (a *app) printUse(p *usePlan, dryRun bool) error {
	r, f := &p.record, p.files
	if a.json {
		return a.printJSON(usePlanJSON{*r, dryRun, len(f.files), f.bytes, f.programs, f.attributes, p.make != nil})
	}
	fields := [][2]string{{"Directory", fmt.Sprintf("%s: %s, %s, in %s", quote.Cell(r.Dir), plural(uint64(len(f.files)), "file"), plural(uint64(f.bytes), "byte"), directories(len(f.dirs)+1))}}
	if r.Inode == 0 {
		fields[0][1] = quote.Cell(r.Dir) + ", which is not there yet"
	}
	if r.WrittenFor != "" {
		fields = append([][2]string{{"Agent", r.Agent + ", as of version " + r.WrittenFor}}, fields...)
	}
	store := r.Store + ", at " + r.URL
	if p.make != nil {
		store += ", which is made"
	}
	fields = append(fields, [2]string{"Store", store})
	a.printFields(fields)
	a.printf("\nWhat is done:\n")
	step := 0
	say := func(format string, args ...any) {
		step++
		a.printf("  %d. %s\n", step, quote.Line(fmt.Sprintf(format, args...)))
	}
	if len(f.files)+len(f.dirs) > 0 {
		say("Each file becomes a memory of the store, the oldest first.")
	}
	if r.Backup != "" {
		say("%s is renamed to %s, as it is.", quote.Cell(r.Dir), quote.Cell(r.Backup))
	}
	if r.Git != "" {
		say("%s is copied to %s, and a memory /%[1]s names that.", gitName, quote.Cell(r.Git))
	}
	say("The store is mounted at %s.", quote.Cell(r.Mount))
	if len(f.files) > 0 {
		a.printf("     Its files have the times of their versions, which are new; those of now are in the metadata of the versions.\n")
	}
	if s := r.Setting; s != nil {
		say("%s in %s becomes %q. %s stays as it is.", strings.Join(s.Key, "."), quote.Cell(s.File), s.After, quote.Cell(r.Dir))
	}
	if n := len(f.programs); n > 0 {
		a.printf("\nA store knows no modes: %s can be executed now and cannot then:\n", plural(uint64(n), "file"))
		a.printNames(f.programs)
	}
	if n := len(f.attributes); n > 0 {
		a.printf("\nNor does it keep the extended attributes of %s:\n", plural(uint64(n), "file"))
		a.printNames(f.attributes)
	}
	for _, warning := range p.found.Warn {
		a.printf("\n%s.\n", printable(warning))
	}
	if r.Inode != 0 && r.Setting == nil && f.isOpen {
		a.printf("\nOther users can read the directory now, and cannot then.\n")
	}
	a.printf("\n`%s` brings everything back, and with --keep-changes what was changed since.\n", r.undoCommand(a))
	return nil
}

// printNames prints the first of some files, each on a line, and how many there are besides.
func (a *app) printNames(names []string) {
	n := min(len(names), 5)
	for _, name := range names[:n] {
		a.printf("  %s\n", quote.Cell(name))
	}
	if more := len(names) - n; more > 0 {
		a.printf("  %d more\n", more)
	}
}

func directories(n int) string {
	if n == 1 {
		return "1 directory"
	}
	return fmt.Sprintf("%d directories", n)
}

// command is how to call `mneme use` for what a record says, as it may be shown.
func (r *useRecord) command(a *app) string {
	return printable(a.command() + " use " + shellWord(r.Dir))
}

// undoCommand is how to undo what a record says.
func (r *useRecord) undoCommand(a *app) string {
	return r.command(a) + " --undo"
}

// printUsed says what is in use.
func (a *app) printUsed(r *useRecord) error {
	if a.json {
		return a.printJSON(r)
	}
	a.printf("\n%s is at %s: %s.\n", quote.Cell(r.Store), a.paint(bold, quote.Cell(r.Mount)), plural(uint64(r.Imported.Files), "file")+" imported")
	if s := r.Setting; s != nil {
		a.printf("%s has %s = %q.\n", quote.Cell(s.File), strings.Join(s.Key, "."), printable(s.After))
	}
	if r.Backup != "" {
		a.printf("What was there is at %s.\n", quote.Cell(r.Backup))
	}
	a.printf("After a restart of the machine `%s` mounts it again.\n`%s` brings everything back, and with --keep-changes what was changed since.\n", r.command(a), r.undoCommand(a))
	return nil
}

// confirmUndo asks a person who may not know it that what was changed since will not be in the
// directory.
func (a *app) confirmUndo(ctx context.Context, r *useRecord) error {
	since, err := r.since(ctx)
	if err != nil || since == 0 { // what cannot be read is no reason to keep the directory
		return nil
	}
	return a.confirm(fmt.Sprintf("Store %s has %s made since, which will not be in %s; --keep-changes brings them there", quote.Cell(r.Store), plural(since, "change"), quote.Cell(r.Dir)), "yes")
}

// undoUse undoes what a record says, and tells what has come into the store since.
func (a *app) undoUse(ctx context.Context, u *use) error {
	r := u.useRecord
	here, err := daemon.MountDir(".")
	isHere := err == nil && isBelow(here, r.Mount)
	if err := u.undo(ctx); err != nil {
		return err
	}
	since, err := r.since(ctx)
	if err != nil {
		return fmt.Errorf("all is as it was, but what was changed since in store %s is not known: %w", r.Store, err)
	}
	if a.json {
		return a.printJSON(struct {
			Undone  string            `json:"undone"`
			Store   string            `json:"store"`
			Changes uint64            `json:"changes_since"`
			Kept    []daemon.LeftFile `json:"kept,omitempty"`
		}{r.Dir, r.Store, since, u.kept})
	}
	if r.Keep {
		a.printf("%s is back, with %s made since in store %s.\n", quote.Cell(r.Dir), plural(since, "change"), quote.Cell(r.Store))
	} else {
		a.printf("%s is as it was.\n", quote.Cell(r.Dir))
	}
	if isHere {
		a.printf("You are still in what was mounted, which is gone: `cd %s`\n", shellWord(r.Dir))
	}
	a.printLeft(u.kept)
	if r.Linked {
		a.printf("What was committed since with git is in %s.\n", quote.Cell(r.Git))
	}
	switch {
	case r.Keep:
	case since > 0:
		a.printf("Store %s has %s made since, which %s not there: `%s log %[1]s`\n", quote.Cell(r.Store), plural(since, "change"), isOrAre(since), a.command())
	case r.StoreID != "":
		a.printf("Store %s stays; nothing was changed in it since.\n", quote.Cell(r.Store))
	}
	return nil
}

func isOrAre(n uint64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// since is how many commits the store has got since all was imported.
func (r *useRecord) since(ctx context.Context) (n uint64, err error) {
	if r.StoreID == "" || !r.Finished {
		return 0, nil
	}
	lib, err := openLibrary(ctx, &r.URL, reading)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lib.Close()) }()
	return commitsSince(ctx, lib, r)
}

func commitsSince(ctx context.Context, lib *backend.Library, r *useRecord) (uint64, error) {
	st, err := lib.Open(ctx, r.StoreID, nil)
	if errors.Is(err, memory.ErrNoStore) { // it was deleted
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	tip, err := st.Tip(ctx)
	return tip.Seq - min(tip.Seq, r.Imported.LastSeq), err
}

// listUses lists what is in use.
func (a *app) listUses(all []*useRecord) error {
	t := &table{header: []string{"AGENT", "DIRECTORY", "STORE", "MOUNT", "STATE"}, shrink: []string{"STORE"}, paths: []string{"DIRECTORY", "MOUNT"}}
	for _, r := range all {
		_, mounted, err := mountedAt(r.Mount)
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
		if a.json {
			if err := a.printJSON(struct {
				*useRecord
				Mounted bool `json:"mounted"`
			}{r, mounted}); err != nil {
				return err
			}
			continue
		}
		t.add(r.Agent, r.Dir, r.Store, r.Mount, state)
	}
	if a.json {
		return nil
	}
	if len(all) == 0 {
		a.printf("Nothing is in use.\n")
		return nil
	}
	a.printTable(t)
	return nil
}
