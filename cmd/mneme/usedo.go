package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"mneme/backend"
	"mneme/daemon"
	"mneme/errkind"
	"mneme/internal/agentdirs"
	"mneme/internal/durable"
	"mneme/internal/quote"
	"mneme/internal/safepath"
	"mneme/memory"
)

// use is one `mneme use` at work, or one that undoes it. What it does, in this order:
//
//  1. The record is written, which says all that will be done.
//  2. The store is made, and the files become memories of it. The directory stays as it is.
//  3. Where the agent has no setting, the directory is renamed, and an empty one made in its place.
//  4. The store is mounted.
//  5. Where the agent has a setting, that is changed.
//  6. The record says that all is done.
//
// Whatever it is cut off in, undo looks at what is there: a step that was not made needs nothing.
// A step that fails undoes what was before it. The store, and what is in it by then, stays.
type use struct {
	records *useRecords
	*useRecord

	mount   func(ctx context.Context, r *useRecord) error
	unmount func(ctx context.Context, r *useRecord) (kept []daemon.LeftFile, err error)
	kept    []daemon.LeftFile // what the mount could not commit when it ended
	keep    bool              // to undo is to bring what was changed since into the directory

	warn    func(line string)  // a person, of something that was done all the same
	bar     *progress          // of the import
	reached func(point string) // is called between the steps; tests end there
}

// errUseCutOff says that a `mneme use` was killed before it had done everything.
var errUseCutOff = errkind.New(errkind.Conflict, "`mneme use` was cut off")

// do does all that the record says. open opens the library that the store is in.
func (u *use) do(ctx context.Context, f *agentFiles, opts *memory.StoreOptions, open func() (*backend.Library, error)) error {
	if err := u.checkApart(); err != nil {
		return err
	}
	if err := u.records.save(u.useRecord); err != nil {
		return err
	}
	u.reached("recorded")
	err := u.steps(ctx, f, opts, open)
	if err == nil {
		return nil
	}
	if undoErr := u.undo(context.WithoutCancel(ctx)); undoErr != nil {
		return errors.Join(err, fmt.Errorf("and undoing what was done: %w", undoErr))
	}
	return fmt.Errorf("%w; all is as it was, but for what is in store %s by now", err, u.Store)
}

// checkApart makes sure that no directory which is in use, or is what was renamed for that, lies
// in the one of the record, or that in it: neither could be brought back without the other.
// Directories that stay where they are may do so.
func (u *use) checkApart() error {
	all, err := u.records.all()
	for _, other := range all {
		for _, dir := range []string{other.Dir, other.Backup, other.Mount} {
			stay := u.Setting != nil && other.Setting != nil
			if dir != "" && !stay && (isBelow(dir, u.Dir) || isBelow(u.Dir, dir)) {
				return fmt.Errorf("%s is %w: %s is in use by mneme; bring that back first: `mneme use %s --undo`", u.Dir, errNotDir, dir, shellWord(other.Dir))
			}
		}
	}
	return err
}

func (u *use) steps(ctx context.Context, f *agentFiles, opts *memory.StoreOptions, open func() (*backend.Library, error)) error {
	if err := u.importAll(ctx, f, opts, open); err != nil {
		return err
	}
	if u.Git != "" {
		if err := copyGit(filepath.Join(u.Dir, gitName), u.Git); err != nil {
			return err
		}
		u.reached("copied")
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
	if err := u.records.save(u.useRecord); err != nil {
		return err
	}
	if err := safepath.MkdirAll(u.Mount, 0o700); err != nil {
		return err
	}
	u.reached("made")
	if err := u.mount(ctx, u.useRecord); err != nil {
		return err
	}
	u.reached("mounted")
	if u.Setting != nil {
		if err := u.set(f); err != nil {
			return err
		}
		u.reached("set")
	}
	u.Finished = true
	return u.records.save(u.useRecord)
}

// importAll makes the store if it is missing, and memories of the files.
func (u *use) importAll(ctx context.Context, f *agentFiles, opts *memory.StoreOptions, open func() (*backend.Library, error)) (err error) {
	lib, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lib.Close()) }()
	st, err := openForImport(ctx, lib, u.useRecord, opts)
	if err != nil {
		return err
	}
	u.reached("store")
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
	defer u.bar.clear()
	i := importer{store: st, root: root, agent: u.Agent, each: func(done int) {
		u.bar.show("import", done, len(f.files))
		u.reached("file")
	}, warn: func(f memory.SecretsFound) {
		u.bar.clear()
		u.warn(fmt.Sprintf("%s: %s; it is in the history of store %s now", quote.Name(f.Path), &f, u.Store))
	}}
	if u.Git != "" {
		if err := i.link(ctx, u.Git); err != nil {
			return err
		}
	}
	if u.Imported.LastSeq, err = i.run(ctx, f); err != nil {
		return err
	}
	u.Imported.Files = len(f.files)
	return u.records.save(u.useRecord)
}

// moveAway renames the directory, and makes sure that it holds then what was imported.
func (u *use) moveAway(f *agentFiles) error {
	if u.Inode != 0 {
		if err := durable.RenameNew(u.Dir, u.Backup); err != nil {
			return err
		}
		u.reached("moved")
		u.Moved = true
		if err := u.records.save(u.useRecord); err != nil {
			return err
		}
		return u.checkUnchanged(f, u.Backup)
	}
	return nil
}

// checkUnchanged makes sure that the directory, which may have another name by now, holds what was
// imported, and that nobody is about to change it.
func (u *use) checkUnchanged(f *agentFiles, dir string) error {
	changed, err := f.changedSince(dir)
	if err == nil && changed != "" {
		err = fmt.Errorf("%s was changed while the directory was imported", filepath.Join(u.Dir, changed))
	}
	if err == nil {
		err = checkUnused(dir)
	}
	return err
}

// set changes the setting, where the directory still holds what was imported.
func (u *use) set(f *agentFiles) error {
	s := u.Setting
	if u.Inode != 0 {
		if err := u.checkUnchanged(f, u.Dir); err != nil {
			return err
		}
	}
	text, err := s.read()
	if err != nil {
		return err
	}
	switch now, set, err := agentdirs.StringAt(text, s.Key); {
	case err != nil:
		return err
	case set != s.Set || now != s.Before: // another directory is the agent's by now
		return fmt.Errorf("%s in %s was changed while the directory was imported", strings.Join(s.Key, "."), s.File)
	}
	edited, edit, err := agentdirs.SetString(text, s.Key, s.After)
	if err != nil {
		return err
	}
	s.HadFile = text != nil
	s.MadeDir = firstMissing(filepath.Dir(s.File))
	s.Edit = *edit
	if err := u.records.save(u.useRecord); err != nil {
		return err
	}
	u.reached("edited")
	if s.MadeDir != "" {
		if err := safepath.MkdirAll(s.MadeDir, 0o755); err != nil {
			return err
		}
		u.reached("made for the setting")
	}
	return s.write(edited)
}

// read returns the text of the settings; nil if there is no file.
func (s *useSetting) read() ([]byte, error) {
	text, err := safepath.NewRoot(filepath.Dir(s.File)).ReadFile(filepath.Base(s.File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

func (s *useSetting) write(text []byte) error {
	root, err := safepath.OpenRoot(filepath.Dir(s.File))
	if err != nil {
		return err
	}
	defer root.Close()
	perm := fs.FileMode(0o600)
	if info, err := root.Lstat(filepath.Base(s.File)); err == nil {
		perm = info.Mode().Perm()
	}
	return durable.WriteFile(root, filepath.Base(s.File), text, perm)
}

// undo brings everything back, whatever of it was done, and removes the record.
func (u *use) undo(ctx context.Context) error {
	if u.keep && !u.Keep {
		if err := u.keepChanges(ctx, u.original(), false); err != nil {
			return err
		}
	}
	if u.Setting != nil {
		if err := u.unset(); err != nil {
			return err
		}
		u.reached("unset")
	}
	kept, err := u.unmount(ctx, u.useRecord)
	if err != nil {
		return err
	}
	u.kept = kept
	u.reached("unmounted")
	if u.Backup != "" && u.Inode != 0 {
		if err := u.moveBack(); err != nil {
			return err
		}
	} else if isPartly := u.Setting == nil && u.Keep; !isPartly {
		if err := errors.Join(removeEmptyDir(u.Mount), removeMade(filepath.Dir(u.Mount), u.MadeDir)); err != nil {
			return err
		}
	}
	u.reached("back")
	if u.Keep = u.Keep || u.keep && u.Finished; u.Keep {
		if err := u.records.save(u.useRecord); err != nil {
			return err
		}
		if err := u.keepChanges(ctx, u.Dir, true); err != nil {
			return err
		}
		u.reached("kept")
	}
	if u.Git != "" && !u.Linked { // nobody has used it
		if err := os.RemoveAll(u.Git); err != nil {
			return err
		}
	}
	return u.records.remove(u.useRecord)
}

// original is where the directory is while the store is mounted; "": nowhere.
func (u *use) original() string {
	switch {
	case u.Setting != nil:
		return u.Dir
	case u.Inode == 0:
		return ""
	}
	if _, err := os.Lstat(u.Backup); err != nil { // it is back, by an undoing that was cut off
		return u.Dir
	}
	return u.Backup
}

// moveBack gives the directory its name, if it has lost it.
func (u *use) moveBack() error {
	info, err := os.Lstat(u.Backup)
	if errors.Is(err, fs.ErrNotExist) {
		return u.wantOriginal()
	}
	if err != nil {
		return err
	}
	if st := info.Sys().(*syscall.Stat_t); st.Ino != u.Inode && !u.Moved {
		return u.wantOriginal() // somebody else's, with the name that the directory was to get
	}
	if err := removeEmptyDir(u.Dir); err != nil {
		return err
	}
	u.reached("removed")
	return durable.RenameNew(u.Backup, u.Dir)
}

// wantOriginal makes sure that the directory is there, which was never renamed, or is back.
func (u *use) wantOriginal() error {
	if _, err := os.Lstat(u.Dir); err != nil {
		return fmt.Errorf("neither %s nor %s is there any more: %w", u.Dir, u.Backup, err)
	}
	return nil
}

// removeEmptyDir removes a directory that was made to mount at, if it is there.
func removeEmptyDir(dir string) error {
	err := syscall.Rmdir(dir)
	switch {
	case errors.Is(err, syscall.ENOENT):
		return nil
	case errors.Is(err, syscall.ENOTEMPTY):
		return fmt.Errorf("%w: %w", errUndoHasWay, strayFiles(dir))
	case err != nil:
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// strayFiles says that there are files where the store is to be mounted.
func strayFiles(dir string) error {
	return fmt.Errorf("%s holds files that were made while the store was not mounted; move them away, then again", dir)
}

// unset brings the setting back, if it was changed and is what it was changed to.
func (u *use) unset() error {
	s := u.Setting
	if s.Edit.After == "" { // it was not come to
		return nil
	}
	text, err := s.read()
	if err != nil || text == nil {
		return errors.Join(err, removeMade(filepath.Dir(s.File), s.MadeDir))
	}
	if before, ok := s.Edit.Undo(text); ok {
		return s.restore(before)
	}
	now, set, err := agentdirs.StringAt(text, s.Key)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w; take %s out of it by hand, then again", s.File, err, strings.Join(s.Key, "."))
	case set == s.Set && now == s.Before: // it was not changed, or is back
		return nil
	case !set || now != s.After:
		return fmt.Errorf("%w: %s says %q in %s, where `mneme use` had put %q; make it what is right, then again", errUndoHasWay, strings.Join(s.Key, "."), now, s.File, s.After)
	}
	if s.Set {
		text, _, err = agentdirs.SetString(text, s.Key, s.Before)
	} else {
		text, err = agentdirs.Unset(text, s.Key)
	}
	if err != nil {
		return err
	}
	return s.write(text)
}

// restore makes the settings what they were; an empty text is no file.
func (s *useSetting) restore(text []byte) error {
	if len(text) > 0 || s.HadFile {
		return s.write(text)
	}
	root, err := safepath.OpenRoot(filepath.Dir(s.File))
	if err != nil {
		return err
	}
	err = errors.Join(root.Remove(filepath.Base(s.File)), root.Close())
	if err == nil {
		err = removeMade(filepath.Dir(s.File), s.MadeDir)
	}
	return err
}

// firstMissing returns the topmost directory of a path that is not there; "": all are.
func firstMissing(dir string) (missing string) {
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = dir
	}
	return missing
}

// removeMade removes a directory and those it is in, up to the topmost one that was made, which may
// be "", unless something else is in them.
func removeMade(dir, topmost string) error {
	for ; topmost != "" && isBelow(dir, topmost); dir = filepath.Dir(dir) {
		err := syscall.Rmdir(dir)
		switch {
		case errors.Is(err, syscall.ENOTEMPTY):
			return nil
		case err != nil && !errors.Is(err, syscall.ENOENT):
			return fmt.Errorf("remove %s: %w", dir, err)
		}
	}
	return nil
}
