package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mneme/backend"
	"mneme/daemon"
	"mneme/errkind"
	"mneme/internal/agentdirs"
	"mneme/internal/mountinfo"
	"mneme/internal/quote"
	"mneme/internal/safepath"
	"mneme/internal/xdg"
	"mneme/memory"
	"mneme/versionlog"
)

// useLargest is how many bytes a file may have that a new store is made for.
const useLargest = 16 << 20

// usePlan is what `mneme use` would do. To make it changes nothing.
type usePlan struct {
	record useRecord
	found  *agentdirs.Found
	files  *agentFiles
	make   *memory.StoreOptions // of the store; nil: it is there
}

var (
	errNotForStore = errkind.New(errkind.Denied, "the store cannot hold everything that is there")
	errNotDir      = errkind.New(errkind.Denied, "not a directory that can be used")
	errStoreTaken  = errkind.New(errkind.Exists, "the store has other memories")
)

// newUsePlan looks at the directory and the store, and refuses what could not be done or undone.
// A store that is not named must have nothing but what is in the directory.
func newUsePlan(ctx context.Context, a *app, found *agentdirs.Found, store string, named bool) (*usePlan, error) {
	at, err := locate(a.url)
	if err != nil {
		return nil, err
	}
	dir, err := daemon.MountDir(found.Dir)
	if err != nil {
		return nil, err
	}
	p := &usePlan{found: found, files: &agentFiles{}, record: useRecord{
		Format: useFormat, Agent: found.Agent, WrittenFor: found.WrittenFor, Project: found.Project,
		MadeAt: time.Now().UTC().Truncate(time.Second), URL: at.URL, Store: store, Dir: dir, Mount: dir,
	}}
	if p.record.Inode, err = checkUsable(dir, at); err != nil {
		return nil, err
	}
	info, heads, err := storeForUse(ctx, a, store)
	if err != nil {
		return nil, err
	}
	if info != nil {
		p.record.Store = info.Slug
	} else if p.record.Store, err = memory.Slug(store); err != nil {
		return nil, fmt.Errorf("%w; --store gives it a name", err)
	}
	if p.record.Inode != 0 {
		most := int64(useLargest)
		if info != nil {
			most = info.Limits.MaxMemoryBytes
		}
		if p.files, err = lookIntoDir(dir, most, found.Git); err != nil {
			return nil, err
		}
		if err := found.Check(p.files.names()); err != nil {
			return nil, refusal{err}
		}
	}
	if err := p.fit(info, heads, named); err != nil {
		return nil, err
	}
	if found.Git {
		if err := p.planGit(); err != nil {
			return nil, err
		}
	}
	if found.Setting != nil {
		err = p.planSetting(found.Setting)
	} else if p.record.Inode != 0 {
		p.record.Backup, err = freeName(dir + ".before-mneme")
	}
	return p, err
}

// refusal is an error about what mneme does not use.
type refusal struct{ error }

func (r refusal) Kind() errkind.Kind { return errkind.Denied }
func (r refusal) Unwrap() error      { return r.error }

// checkUsable makes sure that a directory can be moved away and is in no use; it returns the inode
// of it, or 0 if it is missing.
func checkUsable(dir string, at *backend.Location) (inode uint64, err error) {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	case !info.IsDir():
		return 0, fmt.Errorf("%s is %w (%v)", quote.Cell(dir), errNotDir, info.Mode().Type())
	case int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid():
		return 0, fmt.Errorf("%s is %w: it belongs to user %d, not to you", quote.Cell(dir), errNotDir, info.Sys().(*syscall.Stat_t).Uid)
	}
	own := []string{at.Dir, os.Getenv("HOME")}
	for _, dir := range []func() (string, error){xdg.State, xdg.Data, xdg.Cache} {
		if d, err := dir(); err == nil {
			own = append(own, d)
		}
	}
	for _, inside := range own {
		if inside != "" && isBelow(inside, dir) {
			return 0, fmt.Errorf("%s is %w: %s is in it", quote.Cell(dir), errNotDir, quote.Cell(inside))
		}
	}
	if err := checkNoMounts(dir); err != nil {
		return 0, err
	}
	if err := syscall.Access(filepath.Dir(dir), 2); err != nil { // W_OK, to rename it
		return 0, fmt.Errorf("write in %s: %w", filepath.Dir(dir), err)
	}
	return info.Sys().(*syscall.Stat_t).Ino, checkUnused(dir)
}

// checkUnused makes sure that no process is in a directory or has files of it open, as far as this
// user may look.
func checkUnused(dir string) error {
	if users := daemon.Users(dir); len(users) > 0 {
		return fmt.Errorf("%s is %w by %s; let that end or leave it first", quote.Cell(dir), daemon.ErrInUse, printable(strings.Join(users, ", ")))
	}
	return nil
}

// isBelow reports whether a path is a directory or below it.
func isBelow(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// checkNoMounts makes sure that a directory is in no mount of mneme, and that nothing is mounted in it.
func checkNoMounts(dir string) error {
	all, err := mountinfo.List()
	for _, m := range all {
		if isBelow(m.Dir, dir) || m.Type == daemon.MountType && isBelow(dir, m.Dir) {
			return fmt.Errorf("%s is %w: %s is mounted there (%s)", quote.Cell(dir), errNotDir, quote.Cell(m.Dir), m.Type)
		}
	}
	return err
}

// checkMountable makes sure that this user can mount at a directory, which may be missing.
func checkMountable(dir string) error {
	if err := daemon.CheckFuse(); err != nil {
		return err
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	d, err := safepath.Make(dir, 0o700) // which is there
	if err != nil {
		return fmt.Errorf("mount at %s: %w", dir, err)
	}
	return d.Close()
}

// storeForUse returns a store and what it has; nil if there is none of that name.
func storeForUse(ctx context.Context, a *app, name string) (info *versionlog.Store, heads map[string]versionlog.Digest, err error) {
	err = a.withLibrary(ctx, reading, func(lib *backend.Library) error {
		found, err := lib.FindStore(ctx, name)
		if err != nil {
			return err
		}
		if err := takesNoWrites(found); err != nil {
			return fmt.Errorf("store %s: %w", found.Slug, err)
		}
		st, err := lib.Open(ctx, found.ID, nil)
		if err != nil {
			return err
		}
		info = &found
		heads, err = headsOf(ctx, st)
		return err
	})
	if errors.Is(err, memory.ErrNoStore) {
		return nil, nil, nil
	}
	return info, heads, a.allowNothing(err)
}

// fit holds what is in the directory against the store, or decides what a new store is made for.
func (p *usePlan) fit(info *versionlog.Store, heads map[string]versionlog.Digest, named bool) error {
	f := p.files
	refused, another := f.refused, ""
	if info == nil {
		p.make = &memory.StoreOptions{Actor: userActor(), Policy: newStorePolicy(), Description: "The memory of " + p.found.Agent}
		if p.found.Agent == dirAgent {
			p.make.Description = ""
		}
		if len(f.notText) > 0 || p.found.Binary {
			p.make.Content = versionlog.ContentAny
		}
		if f.largest > memory.DefaultMaxMemoryBytes || p.found.Binary {
			p.make.MaxMemoryBytes = useLargest
		}
	} else {
		if info.Limits.Content == versionlog.ContentText {
			for _, rel := range f.notText {
				refused = append(refused, quote.Name(rel)+": it is not UTF-8, and the store takes text only")
			}
		}
		collide, others := f.collisions(heads)
		if refused = append(refused, collide...); len(collide) > 0 {
			another = "--store NAME makes another store"
		}
		if others > 0 && !named {
			return fmt.Errorf("store %s: %w (%s); --store %[1]s says that they are to be in the directory, too, --store NAME makes another", info.Slug, errStoreTaken, memories(others))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return newListedError(fmt.Errorf("%s: %w, so that nothing is changed", quote.Cell(p.record.Dir), errNotForStore), refused, another)
}

// planSetting plans to change a setting instead of mounting at the agent's directory.
func (p *usePlan) planSetting(s *agentdirs.Setting) error {
	state, err := xdg.State()
	if err != nil {
		return err
	}
	if p.record.Mount, err = daemon.MountDir(filepath.Join(state, "mounts", p.record.Store)); err != nil {
		return err
	}
	if err := checkNoMounts(p.record.Mount); err != nil {
		return err
	}
	_, err = os.Lstat(s.File)
	p.record.Setting = &useSetting{
		File: s.File, Key: s.Key, After: p.record.Mount, Before: s.Value, Set: s.Set, HadFile: err == nil,
	}
	return nil
}

// planGit plans to copy the git directory, which has to be one.
func (p *usePlan) planGit() error {
	info, err := os.Lstat(filepath.Join(p.record.Dir, gitName))
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s in %s is no directory (%v)", gitName, p.record.Dir, info.Mode().Type())
	}
	if err != nil {
		return refusal{err}
	}
	state, err := xdg.State()
	if err == nil {
		p.record.Git, err = freeName(filepath.Join(state, "git", p.record.Store))
	}
	return err
}

// freeName returns a name that nothing has: that, or with a number behind it.
func freeName(name string) (string, error) {
	for n := 1; n < 100; n++ {
		free := name
		if n > 1 {
			free += "-" + strconv.Itoa(n)
		}
		if _, err := os.Lstat(free); errors.Is(err, fs.ErrNotExist) {
			return free, nil
		} else if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%s, and 98 more like it: %w", name, fs.ErrExist)
}

// names returns the files by their paths below the directory.
func (f *agentFiles) names() []string {
	var names []string
	for _, file := range f.files {
		names = append(names, file.rel)
	}
	return names
}
