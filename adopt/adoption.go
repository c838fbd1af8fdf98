package adopt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"mneme/backend"
	"mneme/daemon"
	"mneme/internal/durable"
	"mneme/internal/quote"
	"mneme/internal/safepath"
	"mneme/memory"
	"mneme/versionlog"
)

// Adoption puts a directory of an agent on a store, or undoes that. Do works in this order:
//
//  1. Write the record, which lists everything that will be done.
//  2. Create the store, and make memories of the files. The directory stays as it is.
//  3. If the agent has no setting, rename the directory, and make an empty one in its place.
//  4. Mount the store.
//  5. If the agent has a setting, change it.
//  6. Write into the record that everything is done.
//
// If Do was cut off, Undo looks at the state of each step, and does nothing for a step that
// was not made. A step that fails undoes the earlier steps. The store stays, with its
// memories.
type Adoption struct {
	Records *Records
	*Record

	Open        Opener
	Actor       versionlog.Actor
	StartMount  func(ctx context.Context, r *Record) error
	EndMount    func(ctx context.Context, r *Record) (kept []daemon.LeftFile, err error)
	Kept        []daemon.LeftFile // files that the mount could not commit when it ended
	KeepChanges bool              // Undo merges later changes of the store into the directory

	Warn    func(line string)  // reports to a person something that was done nevertheless
	Bar     ProgressBar        // shows the import; may be nil
	reached func(point string) // called between the steps, for tests; may be nil
}

// Do does everything that the record lists.
func (u *Adoption) Do(ctx context.Context, f *Files, opts *memory.StoreOptions) error {
	if err := u.CheckApart(); err != nil {
		return err
	}
	if err := u.Records.save(u.Record); err != nil {
		return err
	}
	u.reach("recorded")
	err := u.steps(ctx, f, opts)
	if err == nil {
		return nil
	}
	if undoErr := u.Undo(context.WithoutCancel(ctx)); undoErr != nil {
		return errors.Join(err, fmt.Errorf("and undoing what was done: %w", undoErr))
	}
	return fmt.Errorf("%w; all is as it was, but for what is in store %s by now", err, u.Store)
}

// reach tells a test the step that was reached.
func (u *Adoption) reach(point string) {
	if u.reached != nil {
		u.reached(point)
	}
}

func (u *Adoption) clearBar() {
	if u.Bar != nil {
		u.Bar.Clear()
	}
}

// ApartError says that a directory cannot be used, since another one is in use.
type ApartError struct {
	Dir, Other string
	Used       string // the directory in use that Other belongs to
}

func (e *ApartError) Error() string {
	return fmt.Sprintf("%s is %v: %s is in use by mneme", e.Dir, errNotDir, e.Other)
}

func (e *ApartError) Unwrap() error { return errNotDir }

// ProgressBar shows the progress of an import.
type ProgressBar interface {
	Show(step string, done, total int)
	Clear()
}

// CheckApart makes sure that the record's directory contains no directory that is in use or
// was renamed for that, and lies in none. Neither could be restored without the other. Two
// directories that both stay in place are allowed.
func (u *Adoption) CheckApart() error {
	all, err := u.Records.All()
	for _, other := range all {
		for _, dir := range []string{other.Dir, other.Backup, other.Mount} {
			stay := u.Setting != nil && other.Setting != nil
			if dir != "" && !stay && (IsBelow(dir, u.Dir) || IsBelow(u.Dir, dir)) {
				return &ApartError{Dir: u.Dir, Other: dir, Used: other.Dir}
			}
		}
	}
	return err
}

func (u *Adoption) steps(ctx context.Context, f *Files, opts *memory.StoreOptions) error {
	if err := u.importAll(ctx, f, opts); err != nil {
		return err
	}
	if u.Git != "" {
		if err := copyGit(filepath.Join(u.Dir, GitName), u.Git); err != nil {
			return err
		}
		u.reach("copied")
	}
	if u.Backup != "" {
		if err := u.moveAway(f); err != nil {
			return err
		}
	}
	u.Linked = u.Git != ""
	if u.Setting == nil {
		u.MadeDir = firstMissing(filepath.Dir(u.Mount))
	}
	if err := u.Records.save(u.Record); err != nil {
		return err
	}
	if err := safepath.MkdirAll(u.Mount, 0o700); err != nil {
		return err
	}
	u.reach("made")
	if err := u.StartMount(ctx, u.Record); err != nil {
		return err
	}
	u.reach("mounted")
	if u.Setting != nil {
		if u.Inode != 0 {
			if err := u.checkUnchanged(f, u.Dir); err != nil {
				return err
			}
		}
		if err := u.Setting.set(func() error { return u.Records.save(u.Record) }, u.reach); err != nil {
			return err
		}
		u.reach("set")
	}
	u.Finished = true
	return u.Records.save(u.Record)
}

// importAll creates the store if it is missing, and makes memories of the files.
func (u *Adoption) importAll(ctx context.Context, f *Files, opts *memory.StoreOptions) (err error) {
	lib, err := u.Open(ctx, u.URL, backend.Options{Create: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lib.Close()) }()
	st, err := openForImport(ctx, lib, u.Record, opts, u.Actor)
	if err != nil {
		return err
	}
	u.reach("store")
	if u.Inode == 0 {
		tip, err := st.Tip(ctx)
		u.Imported.LastSeq = tip.Seq
		return err
	}
	root, err := os.OpenRoot(u.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	defer u.clearBar()
	i := importer{store: st, root: root, agent: u.Agent, each: func(done int) {
		if u.Bar != nil {
			u.Bar.Show("import", done, len(f.Files))
		}
		u.reach("file")
	}, warn: func(f memory.SecretsFound) {
		u.clearBar()
		u.Warn(fmt.Sprintf("%s: %s; it is in the history of store %s now", quote.Name(f.Path), &f, u.Store))
	}}
	if u.Git != "" {
		if err := i.link(ctx, u.Git); err != nil {
			return err
		}
	}
	if u.Imported.LastSeq, err = i.run(ctx, f); err != nil {
		return err
	}
	u.Imported.Files = len(f.Files)
	return u.Records.save(u.Record)
}

// moveAway renames the directory, and makes sure that it still holds the imported files.
func (u *Adoption) moveAway(f *Files) error {
	if u.Inode != 0 {
		if err := durable.RenameNew(u.Dir, u.Backup); err != nil {
			return err
		}
		u.reach("moved")
		u.Moved = true
		if err := u.Records.save(u.Record); err != nil {
			return err
		}
		return u.checkUnchanged(f, u.Backup)
	}
	return nil
}

// checkUnchanged makes sure that the directory, at its name of now, holds the imported
// files, and that no process uses it.
func (u *Adoption) checkUnchanged(f *Files, dir string) error {
	changed, err := f.changedSince(dir)
	if err == nil && changed != "" {
		err = fmt.Errorf("%s was changed while the directory was imported", filepath.Join(u.Dir, changed))
	}
	if err == nil {
		err = checkUnused(dir)
	}
	return err
}

// Undo restores everything, whichever steps were done, and removes the record.
func (u *Adoption) Undo(ctx context.Context) error {
	if u.KeepChanges && !u.Keep {
		if err := u.keepChanges(ctx, u.Open, u.original(), false); err != nil {
			return err
		}
	}
	if u.Setting != nil {
		if err := u.Setting.unset(); err != nil {
			return err
		}
		u.reach("unset")
	}
	kept, err := u.EndMount(ctx, u.Record)
	if err != nil {
		return err
	}
	u.Kept = kept
	u.reach("unmounted")
	if u.Backup != "" && u.Inode != 0 {
		if err := u.moveBack(); err != nil {
			return err
		}
	} else if isPartly := u.Setting == nil && u.Keep; !isPartly {
		if err := errors.Join(removeEmptyDir(u.Mount), removeMade(filepath.Dir(u.Mount), u.MadeDir)); err != nil {
			return err
		}
	}
	u.reach("back")
	if u.Keep = u.Keep || u.KeepChanges && u.Finished; u.Keep {
		if err := u.Records.save(u.Record); err != nil {
			return err
		}
		if err := u.keepChanges(ctx, u.Open, u.Dir, true); err != nil {
			return err
		}
		u.reach("kept")
	}
	if u.Git != "" && !u.Linked { // no process has used it
		if err := os.RemoveAll(u.Git); err != nil {
			return err
		}
	}
	return u.Records.remove(u.Record)
}

// original is the place of the directory while the store is mounted; "": none.
func (u *Adoption) original() string {
	switch {
	case u.Setting != nil:
		return u.Dir
	case u.Inode == 0:
		return ""
	}
	if _, err := os.Lstat(u.Backup); err != nil { // an Undo that was cut off has restored it
		return u.Dir
	}
	return u.Backup
}

// moveBack gives the directory its name again, if it was renamed.
func (u *Adoption) moveBack() error {
	info, err := os.Lstat(u.Backup)
	if errors.Is(err, fs.ErrNotExist) {
		return u.wantOriginal()
	}
	if err != nil {
		return err
	}
	if st := info.Sys().(*syscall.Stat_t); st.Ino != u.Inode && !u.Moved {
		return u.wantOriginal() // another directory, with the name that was planned
	}
	if err := removeEmptyDir(u.Dir); err != nil {
		return err
	}
	u.reach("removed")
	return durable.RenameNew(u.Backup, u.Dir)
}

// wantOriginal makes sure that the directory exists, which was never renamed, or is back.
func (u *Adoption) wantOriginal() error {
	if _, err := os.Lstat(u.Dir); err != nil {
		return fmt.Errorf("neither %s nor %s is there any more: %w", u.Dir, u.Backup, err)
	}
	return nil
}
