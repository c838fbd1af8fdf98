// Package mount holds the commands about mounts: mount, unmount and status. It reads their
// flags, opens the stores, and prints; package daemon does the work of the process. It uses
// app, view, sessions, listen and daemon. Read mount.go first.
package mount

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
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
	"mneme/note"
)

// ballastSize is the size of an allocation that is never touched and takes no memory. With
// it, a small store is not collected after every few megabytes that a walk reads.
const ballastSize = 10 << 20

func (c *MountCmd) Run(ctx context.Context, a *app.App) error {
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
			_ = term.WriteJSON(parent, app.NewErrorReply(err)) // unless the process that serves has it, and says more
		}
		if err != nil {
			return err
		}
		a.Exit(code) // the process that served has said why
	}
	c.process = daemon.Process{At: c.At, Link: link, Log: sessions.NewLogger(c.logLevel(parent == nil && a.ErrIsTerminal))}
	if link != nil {
		c.Session = link.Session()
	}
	signal.Ignore(syscall.SIGPIPE) // the reader of the log may end before the mount
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

// serve mounts, calls ready, and returns when ctx or an unmount has ended the mount. It
// returns the files that it keeps without a commit.
func (c *MountCmd) serve(ctx context.Context, url *string, ready func(daemon.Mounted) error) (kept []daemon.LeftFile, err error) {
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

// claim adapts the session and the stores to the credential, and claims the session of a
// mount that can write. A nil file is no claim.
func (c *MountCmd) claim(ctx context.Context, url *string, lib *backend.Library, wanted []sessions.WantedStore) (*os.File, error) {
	if err := c.obey(ctx, lib, wanted); err != nil {
		return nil, err
	}
	return sessions.ClaimWanted(url, c.Session, wanted)
}

// printPrompt prints the note about the mount for an agent.
func (c *MountCmd) printPrompt(ctx context.Context, a *app.App) error {
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

// startMetrics serves metrics if --metrics-addr asks for them, else it returns nil.
func (c *MountCmd) startMetrics(server *fusefs.Server, lib *backend.Library, announced *daemon.Mounted) (*listen.MetricsServer, error) {
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
