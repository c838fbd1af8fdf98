package adopt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mneme/backend"
	"mneme/daemon"
	"mneme/errkind"
	"mneme/internal/agentdirs"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/internal/xdg"
	"mneme/memory"
	"mneme/versionlog"
)

// largest is the size in bytes of the largest file for which a new store is made.
const largest = 16 << 20

// Plan describes an Adoption before anything is done. Making a plan changes nothing.
type Plan struct {
	Record Record
	Found  *agentdirs.Found
	Files  *Files
	Make   *memory.StoreOptions // of the store; nil: the store exists
}

// PlanOptions describe the library and the new stores of a plan.
type PlanOptions struct {
	At           *backend.Location // the library
	MayBeMissing bool              // the library may have no stores yet
	Open         Opener
	Actor        versionlog.Actor  // makes the store
	Policy       versionlog.Policy // of a new store
}

// Opener opens the library at a URL.
type Opener func(ctx context.Context, url string, opts backend.Options) (*backend.Library, error)

// UnfitError says that a store cannot hold the directory.
type UnfitError struct {
	Dir     string
	Reasons []string // each names a file
	Advice  string   // "": none
}

func (e *UnfitError) Error() string { return e.Unwrap().Error() + ": " + strings.Join(e.Reasons, "; ") }

// Unwrap returns the error without its reasons.
func (e *UnfitError) Unwrap() error {
	return fmt.Errorf("%s: %w, so that nothing is changed", quote.Cell(e.Dir), errNotForStore)
}

var (
	errNotForStore = errkind.New(errkind.Denied, "the store cannot hold everything that is there")
	errStoreTaken  = errkind.New(errkind.Exists, "the store has other memories")
)

// NewPlan looks at the directory and the store, and refuses an adoption that could not be
// done or undone. A store that the person did not name may contain only memories that are
// in the directory.
func NewPlan(ctx context.Context, o *PlanOptions, found *agentdirs.Found, store string, named bool) (*Plan, error) {
	at := o.At
	dir, err := daemon.MountDir(found.Dir)
	if err != nil {
		return nil, err
	}
	p := &Plan{Found: found, Files: &Files{}, Record: Record{
		Format: recordFormat, Agent: found.Agent, WrittenFor: found.WrittenFor, Project: found.Project,
		MadeAt: time.Now().UTC().Truncate(time.Second), URL: at.URL, Store: store, Dir: dir, Mount: dir,
	}}
	if p.Record.Inode, err = checkUsable(dir, at); err != nil {
		return nil, err
	}
	info, heads, err := o.findStore(ctx, store)
	if err != nil {
		return nil, err
	}
	if info != nil {
		p.Record.Store = info.Slug
	} else if p.Record.Store, err = memory.Slug(store); err != nil {
		return nil, fmt.Errorf("%w; --store gives it a name", err)
	}
	if p.Record.Inode != 0 {
		most := int64(largest)
		if info != nil {
			most = info.Limits.MaxMemoryBytes
		}
		if p.Files, err = look(dir, most, found.Git); err != nil {
			return nil, err
		}
		if err := found.Check(p.Files.names()); err != nil {
			return nil, errkind.Wrap(errkind.Denied, err)
		}
	}
	if err := p.fit(o, info, heads, named); err != nil {
		return nil, err
	}
	if found.Git {
		if err := p.planGit(); err != nil {
			return nil, err
		}
	}
	if found.Setting != nil {
		err = p.planSetting(found.Setting)
	} else if p.Record.Inode != 0 {
		p.Record.Backup, err = freeName(dir + ".before-mneme")
	}
	return p, err
}

// findStore returns a store and the digests of its memories; nil if no store has the name.
func (o *PlanOptions) findStore(ctx context.Context, name string) (info *versionlog.Store, heads map[string]versionlog.Digest, err error) {
	lib, err := o.Open(ctx, o.At.URL, backend.Options{ReadOnly: true})
	if err == nil {
		info, heads, err = findIn(ctx, lib, name)
		err = errors.Join(err, lib.Close())
	}
	if errors.Is(err, memory.ErrNoStore) || o.MayBeMissing && errors.Is(err, backend.ErrNoStores) {
		return nil, nil, nil
	}
	return info, heads, err
}

func findIn(ctx context.Context, lib *backend.Library, name string) (*versionlog.Store, map[string]versionlog.Digest, error) {
	info, err := lib.FindStore(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if err := memory.Closed(info); err != nil {
		return nil, nil, fmt.Errorf("store %s: %w", info.Slug, err)
	}
	st, err := lib.Open(ctx, info.ID, nil)
	if err != nil {
		return nil, nil, err
	}
	heads, err := headsOf(ctx, st)
	return &info, heads, err
}

// fit compares the directory with the store, or chooses the options of a new store.
func (p *Plan) fit(o *PlanOptions, info *versionlog.Store, heads map[string]versionlog.Digest, named bool) error {
	f := p.Files
	refused, another := f.refused, ""
	if info == nil {
		p.Make = &memory.StoreOptions{Actor: o.Actor, Policy: o.Policy, Description: "The memory of " + p.Found.Agent}
		if p.Found.Agent == DirAgent {
			p.Make.Description = ""
		}
		if len(f.notText) > 0 || p.Found.Binary {
			p.Make.Content = versionlog.ContentAny
		}
		if f.largest > memory.DefaultMaxMemoryBytes || p.Found.Binary {
			p.Make.MaxMemoryBytes = largest
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
			return fmt.Errorf("store %s: %w (%s); --store %[1]s says that they are to be in the directory, too, --store NAME makes another", info.Slug, errStoreTaken, plural.Of(others, "memory"))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return &UnfitError{Dir: p.Record.Dir, Reasons: refused, Advice: another}
}

// planSetting plans to change a setting instead of mounting at the agent's directory.
func (p *Plan) planSetting(s *agentdirs.Setting) error {
	state, err := xdg.State()
	if err != nil {
		return err
	}
	if p.Record.Mount, err = daemon.MountDir(filepath.Join(state, "mounts", p.Record.Store)); err != nil {
		return err
	}
	if err := checkNoMounts(p.Record.Mount); err != nil {
		return err
	}
	_, err = os.Lstat(s.File)
	p.Record.Setting = &Setting{
		File: s.File, Key: s.Key, After: p.Record.Mount, Before: s.Value, Set: s.Set, HadFile: err == nil,
	}
	return nil
}

// planGit plans to copy the git directory, which must be a directory.
func (p *Plan) planGit() error {
	info, err := os.Lstat(filepath.Join(p.Record.Dir, GitName))
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s in %s is no directory (%v)", GitName, p.Record.Dir, info.Mode().Type())
	}
	if err != nil {
		return errkind.Wrap(errkind.Denied, err)
	}
	state, err := xdg.State()
	if err == nil {
		p.Record.Git, err = freeName(filepath.Join(state, "git", p.Record.Store))
	}
	return err
}

// names returns the files by their paths below the directory.
func (f *Files) names() []string {
	var names []string
	for _, file := range f.Files {
		names = append(names, file.rel)
	}
	return names
}
