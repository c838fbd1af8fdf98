package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mneme/adopt"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/daemon"
	"mneme/errkind"
	"mneme/internal/agentdirs"
	"mneme/internal/quote"
)

// UseCmd is the command `mneme use`.
type UseCmd struct {
	Agent   string `arg:"" optional:"" name:"agent|dir" help:"${agents}; or any directory, such as ./memory."`
	Store   string `placeholder:"NAME" help:"The store; it is made if it is missing. Default: one named after the agent or the directory."`
	Project string `placeholder:"DIR" help:"The project that the agent works in. Default: the current directory."`
	ID      string `placeholder:"ID" help:"The id of a project, where the agent has its memory under one that mneme cannot tell."`
	DryRun  bool   `help:"Show what would be done, and do nothing."`
	Yes     bool   `help:"Do not ask."`
	Undo    bool   `help:"Bring everything back as it was."`
	List    bool   `help:"List what is in use."`

	KeepChanges bool `help:"With --undo: bring what was changed in the store since into the directory, too."`
}

func (c *UseCmd) Help() string {
	return `Finds the memory of an agent, makes what is there memories of a store, each a version with its time in its metadata, and has the agent use the store: by its setting where it has one, otherwise by mounting the store at its directory. What was there stays beside it, and --undo brings it back byte for byte. It refuses a layout that it does not know, and what a store cannot hold, before anything is changed.

Examples:

    mneme use claude-code --dry-run
    mneme use codex --yes
    mneme use ~/agent/memory --store notes
    mneme use ~/agent/memory --undo
    mneme use ~/agent/memory --undo --keep-changes
    mneme use --list`
}

func (c *UseCmd) Run(ctx context.Context, a *app.App) (err error) {
	records, err := adopt.OpenRecords(!c.List && !c.DryRun)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	all, err := records.All()
	if err != nil {
		return err
	}
	if c.List {
		return listUses(a, all)
	}
	if c.Agent == "" {
		return app.Usagef("which agent? want one of %s, or a directory such as ./memory", strings.Join(agentdirs.Agents(), ", "))
	}
	env, err := c.env()
	if err != nil {
		return err
	}
	known, err := c.record(all, env)
	if err != nil {
		return err
	}
	u := &adopt.Adoption{Open: app.OpenURL, Actor: app.UserActor(), Records: records, Record: known, StartMount: mountForUse(records), EndMount: unmountForUse, Warn: a.Warn, Bar: a.Progress("use")}
	switch {
	case c.KeepChanges && !c.Undo:
		return app.Usagef("--keep-changes goes with --undo")
	case c.Undo && known == nil:
		return c.notInUse(all)
	case c.Undo && c.DryRun:
		return printUsed(a, known)
	case c.Undo:
		u.KeepChanges = c.KeepChanges
		if !u.KeepChanges && !c.Yes {
			if err := confirmUndo(ctx, a, known); err != nil {
				return err
			}
		}
		return undoUse(ctx, a, u)
	case known != nil:
		return c.again(ctx, a, u)
	}
	plan, err := c.plan(ctx, a, env)
	if err != nil {
		return err
	}
	return c.use(ctx, a, u, plan)
}

// use does the plan, after the person has seen it.
func (c *UseCmd) use(ctx context.Context, a *app.App, u *adopt.Adoption, plan *adopt.Plan) error {
	u.Record = &plan.Record
	if err := u.CheckApart(); err != nil {
		return err
	}
	if c.DryRun || !a.JSON {
		if err := printUse(a, plan, c.DryRun); err != nil || c.DryRun {
			return err
		}
	}
	if err := adopt.CheckMountable(u.Mount); err != nil {
		return err
	}
	if !c.Yes {
		if err := a.Out.Flush(); err != nil {
			return err
		}
		sentence := "This changes where " + plan.Found.Agent + " has its memory"
		if plan.Found.Agent == adopt.DirAgent {
			sentence = "This mounts a store in the place of " + u.Dir
		}
		if err := a.Confirm(sentence, "yes"); err != nil {
			return err
		}
	}
	err := u.Do(ctx, plan.Files, plan.Make)
	if err != nil {
		return err
	}
	return printUsed(a, u.Record)
}

// env is the environment in which to find the agent.
func (c *UseCmd) env() (*agentdirs.Env, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	if c.isDir() { // which is in no project, and may be that of a mount that has ended
		return &agentdirs.Env{Home: home, Getenv: os.Getenv, ID: c.ID}, nil
	}
	project, err := filepath.Abs(c.Project)
	if err == nil {
		project, err = filepath.EvalSymlinks(project)
	}
	return &agentdirs.Env{Home: home, Getenv: os.Getenv, Project: project, ID: c.ID}, err
}

// isDir reports whether the argument is a directory that a person has named.
func (c *UseCmd) isDir() bool { return strings.Contains(c.Agent, "/") || app.LooksLikePath(c.Agent) }

// find finds the memory of the agent.
func (c *UseCmd) find(env *agentdirs.Env) (*agentdirs.Found, error) {
	switch {
	case c.isDir():
		dir, err := daemon.Absolute(c.Agent)
		return &agentdirs.Found{Agent: adopt.DirAgent, Name: strings.TrimLeft(filepath.Base(dir), "."), Dir: dir}, err
	case !slices.Contains(agentdirs.Agents(), c.Agent):
		return nil, app.Usagef("%q is no agent that mneme knows; want one of %s, or a directory such as ./%[1]s", c.Agent, strings.Join(agentdirs.Agents(), ", "))
	}
	found, err := agentdirs.Find(c.Agent, env)
	if errors.Is(err, agentdirs.ErrNotJSON) {
		err = fmt.Errorf("%w; it has to be changed by hand: see docs/guide", err)
	}
	if err != nil {
		err = errkind.Wrap(errkind.Denied, err)
	}
	return found, err
}

func (c *UseCmd) plan(ctx context.Context, a *app.App, env *agentdirs.Env) (*adopt.Plan, error) {
	found, err := c.find(env)
	if err != nil {
		return nil, err
	}
	store, named := c.Store, c.Store != ""
	if !named {
		store = found.Name
	}
	at, err := app.Locate(a.URL)
	if err != nil {
		return nil, err
	}
	o := &adopt.PlanOptions{At: at, MayBeMissing: a.URL == nil, Open: app.OpenURL, Actor: app.UserActor(), Policy: app.NewStorePolicy()}
	plan, err := adopt.NewPlan(ctx, o, found, store, named)
	if unfit := (*adopt.UnfitError)(nil); errors.As(err, &unfit) {
		err = term.NewListedError(unfit.Unwrap(), unfit.Reasons, unfit.Advice)
	}
	return plan, err
}

// record returns the record of an existing adoption, or nil.
func (c *UseCmd) record(all []*adopt.Record, env *agentdirs.Env) (*adopt.Record, error) {
	var mine []*adopt.Record
	for _, r := range all {
		if c.isRecord(r, env) {
			mine = append(mine, r)
		}
	}
	switch len(mine) {
	case 0:
		return nil, nil
	case 1:
		return mine[0], nil
	}
	return nil, app.Usagef("mneme has %d directories of %s in use; name one: `mneme use --list` lists them", len(mine), quote.Text(c.Agent))
}

// errUseCutOff says that a `mneme use` was killed before it had done everything.
var errUseCutOff = errkind.New(errkind.Conflict, "`mneme use` was cut off")

// notInUse is the error of undoing a directory that is not in use.
func (c *UseCmd) notInUse(all []*adopt.Record) error {
	what := c.Agent
	if dir, err := daemon.MountDir(c.Agent); err == nil && c.isDir() {
		what = dir
		for _, r := range all {
			if adopt.IsBelow(dir, r.Mount) {
				return app.Usagef("%s is in %s, which is in use; `mneme use %s --undo` brings that back", quote.Cell(dir), quote.Cell(r.Mount), term.ShellWord(r.Dir))
			}
		}
	}
	return app.Usagef("%s is not in use by mneme; `mneme use --list` lists what is", quote.Cell(what))
}

func (c *UseCmd) isRecord(r *adopt.Record, env *agentdirs.Env) bool {
	if c.isDir() {
		dir, err := daemon.MountDir(c.Agent)
		return err == nil && (r.Dir == dir || r.Mount == dir)
	}
	return r.Agent == c.Agent && (r.Project == "" || adopt.IsBelow(env.Project, r.Project))
}

// again mounts the store of a directory in use, if it is not mounted since a restart.
func (c *UseCmd) again(ctx context.Context, a *app.App, u *adopt.Adoption) error {
	if !u.Finished {
		return fmt.Errorf("%s: %w; `mneme use %s --undo` brings everything back", u.Dir, errUseCutOff, term.ShellWord(u.Dir))
	}
	if c.DryRun {
		return printUsed(a, u.Record)
	}
	if _, mounted, err := adopt.MountedAt(u.Mount); err != nil || mounted {
		return errors.Join(err, printUsed(a, u.Record))
	}
	if entries, err := os.ReadDir(u.Mount); err == nil && len(entries) > 0 {
		return adopt.StrayFiles(u.Mount)
	}
	if err := u.StartMount(ctx, u.Record); err != nil {
		return err
	}
	return printUsed(a, u.Record)
}
