package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/listen"
	"mneme/cmd/mneme/sessions"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/daemon"
	"mneme/errkind"
	"mneme/fusefs"
	"mneme/memory"
	"mneme/note"
)

// ballastSize is the size of an allocation that is never touched and takes no memory. With
// it, a small store is not collected after every few megabytes that a walk reads.
const ballastSize = 10 << 20

// minMaxMemory is how many bytes a mount has to hold at least, for a few open files.
const minMaxMemory = 1 << 20

type mountCmd struct {
	Stores      []string       `arg:"" optional:"" name:"store[:ro]" help:"Stores to mount, each below DIR under its name; :ro makes one read-only."`
	At          string         `default:"${mountdir}" placeholder:"DIR" help:"Where to mount them, an empty or new directory. Default: ${default}."`
	Flat        bool           `help:"Mount the one store as DIR itself, not below it."`
	ReadOnly    bool           `help:"All stores read-only."`
	AsOf        string         `placeholder:"POINT" help:"Show the stores as they were, read-only: after the commit of a sequence number, HEAD~n, a time (2026-11-20T15:04:05Z, 2026-11-20, yesterday) or an age (3d)."`
	Session     string         `placeholder:"ID" help:"Session in whose name files are written. Default: that of the token for a server, or else a new one."`
	Refresh     term.Period    `default:"1s" help:"How late another process's change may be seen. Default: ${default}."`
	MetricsAddr string         `placeholder:"HOST:PORT" help:"Serve Prometheus metrics there, at /metrics; without HOST on this machine only. Elsewhere it takes a key, $$MNEME_METRICS_KEY, as a bearer token."`
	CacheSize   term.ByteSize  `default:"1GiB" placeholder:"SIZE" help:"How much of a remote store's bytes to keep on disk, for all mounts together; 0 is none. Default: ${default}."`
	CacheDir    string         `type:"path" placeholder:"DIR" help:"Where to keep them. Default: mneme in your cache directory."`
	MaxMemory   term.ByteSize  `default:"256MiB" placeholder:"SIZE" help:"How much of the machine's memory (RAM) the mount holds for the programs that use it: files being written, scratch files, open files. A call that would pass it gets EDQUOT. How large a file may be is up to the store: 'mneme store create --max-memory-bytes'. Default: ${default}."`
	MinFree     *term.ByteSize `placeholder:"SIZE" help:"Refuse saves when less than that is free on the disk of an embedded store (ENOSPC), so that people can still delete. Default: 64MiB, or an eighth of a smaller disk."`
	quotaFlags
	Background  bool        `help:"Return when it is mounted, and go on serving."`
	Keep        bool        `help:"Outlive the process that serves the mount: when it is killed, or replaced, another one takes over, in every container that has the mount. Takes Linux 6.9."`
	Replace     bool        `help:"Have the mount at DIR, made with --keep, served by the program as it is installed now."`
	PrintPrompt bool        `help:"Print what to tell an agent about the mount, for its system prompt, and mount nothing."`
	Owner       owner       `placeholder:"USER[:GROUP]" help:"Whom the files belong to, by name or number. Default: you."`
	Mode        permissions `default:"700" placeholder:"MODE" help:"Permissions of directories, in octal; files have the same but for execution. What a program makes or changes has its own until the mount ends; what it closes to others stays so. Default: ${default}, for the owner only; 755 lets others read."`
	Exec        bool        `help:"Let programs be executed that are files of the mount."`
	LogLevel    string      `enum:"auto,debug,info,warn,error" default:"auto" placeholder:"LEVEL" help:"From what level on the daemon logs: debug, info, warn or error. Default: warn on a terminal, else info."`

	sessions.SharingFlags

	process daemon.Process // this one, if it serves the mount
}

func (c *mountCmd) Help() string {
	return `One mount is one session: give every agent its own. In the foreground Ctrl-C saves what is open and unmounts.

Examples:

    mneme mount notes
    mneme mount notes docs:ro --at /srv/agent-1/memory --background
    mneme mount notes --at /srv/agent-1/memory --background --keep
    mneme mount --at /srv/agent-1/memory --replace     (after an upgrade)
    mneme mount notes --flat --at ~/.agent/memory
    mneme mount notes --as-of yesterday --at /tmp/then
    mneme mount notes --read-only     (for a session that reads untrusted input)
    mneme mount notes --at /mnt/memory --print-prompt >> system-prompt.txt`
}

// owner is a user and a group. The zero value is the caller.
type owner struct {
	set      bool
	uid, gid uint32
}

// UnmarshalText reads USER:GROUP, or USER, whose own group it is then.
func (o *owner) UnmarshalText(text []byte) error {
	name, group, hasGroup := strings.Cut(string(text), ":")
	uid, own, err := userID(name)
	gid := own
	if err == nil && hasGroup {
		gid, err = groupID(group)
	}
	if err != nil {
		return fmt.Errorf("%q: %w; want USER:GROUP or USER, such as 1000:1000 or agent", text, err)
	}
	*o = owner{true, uid, gid}
	return nil
}

// userID finds a user and its own group, by name or number.
func userID(name string) (uid, gid uint32, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			id, parseErr := strconv.ParseUint(name, 10, 32)
			if parseErr != nil {
				return 0, 0, fmt.Errorf("there is no user %q", name)
			}
			return uint32(id), uint32(id), nil // of a container, perhaps
		}
	}
	id, errUser := strconv.ParseUint(u.Uid, 10, 32)
	own, errGroup := strconv.ParseUint(u.Gid, 10, 32)
	return uint32(id), uint32(own), errors.Join(errUser, errGroup)
}

// groupID finds a group by name or number.
func groupID(name string) (uint32, error) {
	if g, err := user.LookupGroup(name); err == nil {
		name = g.Gid
	}
	id, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("there is no group %q", name)
	}
	return uint32(id), nil
}

func (o owner) ids() (uid, gid uint32) {
	if o.set {
		return o.uid, o.gid
	}
	return uint32(os.Getuid()), uint32(os.Getgid())
}

func (c *mountCmd) Run(ctx context.Context, a *app.App) error {
	switch {
	case c.Replace:
		return c.replace(a)
	case len(c.Stores) == 0:
		return app.Usagef("which store? `mneme store list` lists them; `mneme mount STORE` mounts one")
	case c.PrintPrompt:
		return c.printPrompt(ctx, a)
	}
	parent := daemon.ParentPipe()
	link, err := daemon.KeeperOf()
	if err != nil {
		return err
	}
	if err := sessions.OverwriteFreed(!c.Background && !c.Keep && parent == nil && link == nil); err != nil {
		return err
	}
	if c.Background && parent == nil && link == nil {
		return c.runBackground(a)
	}
	if c.Keep && link == nil {
		code, err := c.keep(ctx, a, parent)
		if err != nil && parent != nil {
			_ = term.WriteJSON(parent, app.NewErrorReply(err)) // unless who serves has it, and says more
		}
		if err != nil {
			return err
		}
		a.Exit(code) // who served has said why
	}
	c.process = daemon.Process{At: c.At, Link: link, Log: sessions.NewLogger(c.logLevel(parent == nil && a.ErrIsTerminal))}
	if link != nil {
		c.Session = link.Session()
	}
	signal.Ignore(syscall.SIGPIPE) // whoever reads the log may end before the mount
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	kept, err := c.serve(ctx, a.URL, func(m daemon.Mounted) error {
		switch {
		case link.TakesOver():
			return nil
		case parent != nil:
			return daemon.ReplyMounted(parent, m)
		default:
			return printMounted(a, m, "Ctrl-C here ends it.")
		}
	})
	if errkind.Of(err) == errkind.Unavailable || errors.Is(err, backend.ErrCredential) { // which is temporary
		link.TellAway()
	}
	switch {
	case err != nil && parent != nil:
		_ = term.WriteJSON(parent, app.NewErrorReply(err)) // the log has it, too
	case err == nil && parent == nil && !a.JSON:
		a.Printf("\nThe mount has ended; what was written is saved.\n")
		view.PrintLeft(a, kept)
	}
	return err
}

// serve mounts, calls ready, and returns when the mount has ended: by ctx, or
// because somebody unmounted it. It returns what is kept of files that were not
// committed.
func (c *mountCmd) serve(ctx context.Context, url *string, ready func(daemon.Mounted) error) (kept []daemon.LeftFile, err error) {
	wanted, err := c.check()
	if err != nil {
		return nil, err
	}
	lib, err := app.OpenLibrary(ctx, url, backend.Options{
		ReadOnly: sessions.AllReadOnly(wanted), Refresh: time.Duration(c.Refresh),
		CacheDir: c.CacheDir, CacheBytes: cmp.Or(int64(c.CacheSize), -1),
	})
	if err != nil {
		return nil, err
	}
	inUse := false
	defer func() {
		if !inUse {
			err = errors.Join(err, lib.Close())
		}
	}()
	c.Strictness.Settle(lib)
	if c.process.Link == nil { // else the keeper has claimed the session
		claim, err := c.claim(ctx, url, lib, wanted)
		if err != nil {
			return nil, err
		}
		defer claim.Close()
	}
	stores, err := c.openStores(ctx, lib, wanted)
	if err == nil {
		err = lib.CheckReaders(ctx, stores)
	}
	if err != nil {
		return nil, err
	}
	if err := lib.Reach(ctx, stores); err != nil {
		return nil, err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(sessions.CollectAt)
		defer runtime.KeepAlive(make([]byte, ballastSize))
	}
	syscall.Umask(0) // the modes that callers ask for have been through theirs
	server, dir, err := c.process.Connect(ctx, stores, c.options(lib))
	if err != nil {
		return nil, err
	}
	announced := daemon.NewMounted(dir, c.Flat, c.process.PID(), c.Session, stores)
	announced.Recovered = daemon.NewLeft(server.Recovered())
	metrics, err := c.startMetrics(server, lib, &announced)
	if err != nil {
		return nil, errors.Join(err, server.Close(), c.process.RemoveMade())
	}
	defer func() { err = errors.Join(err, metrics.Close()) }()
	if err := ready(announced); err != nil {
		return nil, errors.Join(err, server.Close(), c.process.RemoveMade())
	}
	what := "mounted"
	if c.process.Link.TakesOver() {
		what = "taken over"
	}
	c.process.Log.Info(what, "version", app.Version(), "pid", os.Getpid(), "dir", dir, "stores", wanted, "session", c.Session)
	c.process.TellService(daemon.ServiceReady)
	defer c.noteCaller(ctx, lib, wanted)()
	c.process.Log.Info("ending", "cause", c.process.AwaitEnd(ctx, server))
	c.process.TellService(daemon.ServiceStopping)
	err = server.Close()
	c.process.Link.TellEnded()
	inUse = errors.Is(err, fusefs.ErrHangs)
	if inUse {
		c.process.Log.Error("ended", "err", err)
	} else {
		c.process.Log.Info("ended")
	}
	kept = daemon.NewLeft(server.Kept())
	if noteErr := daemon.WriteNote(c.process.PID(), kept); noteErr != nil {
		c.process.Log.Warn("note for mneme unmount", "err", noteErr)
	}
	return kept, err
}

// claim has session and stores be as the credential allows, and claims the session of a mount that
// can write. A nil file is no claim.
func (c *mountCmd) claim(ctx context.Context, url *string, lib *backend.Library, wanted []sessions.WantedStore) (*os.File, error) {
	if err := c.obey(ctx, lib, wanted); err != nil {
		return nil, err
	}
	return sessions.ClaimWanted(url, c.Session, wanted)
}

// obey has session and stores be as the credential allows.
func (c *mountCmd) obey(ctx context.Context, lib *backend.Library, wanted []sessions.WantedStore) (err error) {
	if c.Session, err = sessions.OwnSession(lib, c.Session); err != nil {
		return err
	}
	return sessions.ObeyCredential(ctx, lib, wanted)
}

// logLevel returns the level from which the daemon logs.
func (c *mountCmd) logLevel(terminal bool) (level slog.Level) {
	switch {
	case c.LogLevel != "auto":
		_ = level.UnmarshalText([]byte(c.LogLevel)) // kong has seen that it is one
	case terminal:
		level = slog.LevelWarn
	}
	return level
}

// options are those of the mount, of stores in lib.
func (c *mountCmd) options(lib *backend.Library) *fusefs.Options {
	uid, gid := c.Owner.ids()
	return &fusefs.Options{
		UID: uid, GID: gid, Mode: uint32(c.Mode), Exec: c.Exec, BeforeServing: c.process.DropPrivileges, Session: c.Session, Logger: c.process.Log, Keeper: c.process.Link.KeeperID(), Flat: c.Flat,
		Status: func() []string { return statusLines(lib) }, Strict: c.IsStrict(), Merge: c.OnConflict == "merge", ConflictErrno: sessions.ConflictErrnos[c.ConflictErrno],
		Conflicts: lib.Conflicts, MaxMemory: int64(c.MaxMemory), Advise: app.AdviseMount, Note: c.note(),
		Event: view.EventLine, Notifier: notifier,
	}
}

// notifier is a process of this program that calls fusedev.RunNotifier (see main).
func notifier() *exec.Cmd {
	return &exec.Cmd{Path: daemon.OwnProgram, Args: []string{"mneme", "notices"}}
}

// note returns what makes the text to tell an agent about one store of the mount. The
// directory is looked up at once: a daemon leaves the one that it was started in.
func (c *mountCmd) note() func(note.Mount) string {
	dir, err := filepath.Abs(c.At)
	return func(m note.Mount) string {
		if err == nil {
			m.Path = filepath.Join(dir, m.Path)
		}
		return note.Text([]note.Mount{m}, c.NoteOptions())
	}
}

// printPrompt prints what to tell an agent about the mount.
func (c *mountCmd) printPrompt(ctx context.Context, a *app.App) error {
	wanted, err := c.check()
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(c.At)
	if err != nil {
		return err
	}
	return a.WithLibrary(ctx, app.Reading, func(lib *backend.Library) error {
		if err := c.obey(ctx, lib, wanted); err != nil {
			return err
		}
		c.Strictness.Settle(lib)
		stores, err := c.openStores(ctx, lib, wanted)
		if err != nil {
			return err
		}
		var mounts []note.Mount
		for _, st := range stores {
			mounts = append(mounts, note.Mount{Path: daemon.StoreDir(dir, c.Flat, st.Info().Slug), Store: st.Info(), ReadOnly: st.ReadOnly()})
		}
		return sessions.PrintNote(a, note.Text(mounts, c.NoteOptions()))
	})
}

// startMetrics serves metrics where they are wanted, and nil where they are not.
func (c *mountCmd) startMetrics(server *fusefs.Server, lib *backend.Library, announced *daemon.Mounted) (*listen.MetricsServer, error) {
	if c.MetricsAddr == "" {
		return nil, nil
	}
	metrics, err := listen.ServeMetrics(c.MetricsAddr, &mountCollector{server, lib})
	if err != nil {
		return nil, err
	}
	announced.Metrics = metrics.URL
	return metrics, nil
}

// check reads the arguments that kong cannot judge.
func (c *mountCmd) check() ([]sessions.WantedStore, error) {
	if _, err := sessions.SessionName(c.Session); err != nil {
		return nil, err
	}
	if c.Flat && len(c.Stores) != 1 {
		return nil, app.Usagef("--flat mounts one store as DIR itself, not %d; without --flat each has a directory below DIR", len(c.Stores))
	}
	if c.MaxMemory < minMaxMemory {
		return nil, app.Usagef("--max-memory %d: want at least %d bytes, such as 256MiB", c.MaxMemory, minMaxMemory)
	}
	if err := checkAsOf(c.AsOf, c.Keep); err != nil {
		return nil, err
	}
	wanted, err := sessions.WantStores(c.Stores, c.ReadOnly || c.AsOf != "")
	for i := range wanted {
		wanted[i].ReadOnly = wanted[i].ReadOnly || c.process.Link.ReadOnly(i)
	}
	return wanted, err
}

func (c *mountCmd) openStores(ctx context.Context, lib *backend.Library, wanted []sessions.WantedStore) ([]*memory.Store, error) {
	if c.AsOf != "" {
		return openPast(ctx, lib, wanted, c.AsOf)
	}
	author := memory.SessionAuthor(c.Session)
	author.MayWrite = sessions.MayWrite(lib, c.Session)
	author.Quota = c.quota()
	author.MayGrow = func() error {
		err := lib.CheckFree((*int64)(c.MinFree))
		if errkind.Of(err) == errkind.NoSpace {
			err = fmt.Errorf("%w (--min-free)", err)
		}
		return err
	}
	return sessions.OpenWanted(ctx, lib, wanted, author)
}

// statusLines are lines of .mneme/status: where the stores are, and what was asked of a
// backend that costs.
func statusLines(lib *backend.Library) []string {
	lines := []string{daemon.StatusURL + ": " + lib.Location.URL}
	if key := lib.Credential().Key; key != "" {
		lines = append(lines, daemon.StatusKey+": "+key)
	}
	if requests := lib.Requests(); requests != nil {
		lines = append(lines, usageLines(requests, lib.CacheStats())...)
	}
	return lines
}
