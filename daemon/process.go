package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"

	"mneme/fusefs"
	"mneme/internal/handover"
	"mneme/memory"
)

// Process is this process as the one that serves a mount. Its life is: Connect, which
// mounts or takes over; AwaitEnd; the end of the fusefs.Server; Link.TellEnded. If
// something fails between Connect and AwaitEnd, RemoveMade takes back the directory.
type Process struct {
	At   string // the directory to mount at
	Link *Link  // to the keeper; nil: the process has none
	Log  *slog.Logger

	made string // the directory that was made to mount at; "": it existed
}

// PID is the process id in the mount's source.
func (p *Process) PID() int { return cmp.Or(p.Link.KeeperID(), os.Getpid()) }

// Connect mounts, or takes over a mount that another process has served. It returns the
// directory of the mount, as mountinfo spells it.
func (p *Process) Connect(ctx context.Context, stores []*memory.Store, o *fusefs.Options) (*fusefs.Server, string, error) {
	if p.Link.TakesOver() {
		return p.takeOver(ctx, stores, o)
	}
	site, err := makeSite(p.At)
	if err != nil {
		return nil, "", err
	}
	defer site.Close()
	dir := site.Path()
	o.On = site.File
	if site.Made() {
		p.made = dir
	}
	server, err := fusefs.Mount(ctx, dir, stores, o)
	if err != nil {
		return nil, "", errors.Join(explainMount(err), p.RemoveMade())
	}
	if p.Link != nil {
		err = p.Link.tell(tellMounted, server.Device(), int(server.Journal().File().Fd()))
		if err == nil {
			err = p.Link.tell(tellServing)
		}
	}
	return server, dir, err
}

// RemoveMade removes the directory that was made for a mount that failed, unless it
// contains something.
func (p *Process) RemoveMade() error {
	if p.made == "" {
		return nil
	}
	err := syscall.Rmdir(p.made)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ENOENT) {
		return nil
	}
	return err
}

// takeOver continues a mount when its keeper says so.
func (p *Process) takeOver(ctx context.Context, stores []*memory.Store, o *fusefs.Options) (*fusefs.Server, string, error) {
	dir, err := MountDir(p.At) // does not touch the mount, which may not answer
	if err != nil {
		return nil, "", err
	}
	files, err := p.Link.await(tellJournal, 1)
	if err != nil {
		return nil, "", err
	}
	journal, err := handover.Open(os.NewFile(uintptr(files[0]), "journal"))
	if err != nil {
		return nil, "", err
	}
	if err := p.Link.tell(tellPrepared); err != nil {
		return nil, "", err
	}
	device, err := p.Link.await(tellTakeOver, 1)
	if err != nil {
		return nil, "", err
	}
	server, err := fusefs.TakeOver(ctx, dir, device[0], journal, stores, o)
	if err != nil {
		return nil, "", fmt.Errorf("take over the mount at %s: %w", dir, err)
	}
	return server, dir, p.Link.tell(tellServing)
}

// AwaitEnd returns the cause when the mount has ended or must end. If another process
// takes over, AwaitEnd exits this one.
func (p *Process) AwaitEnd(ctx context.Context, server *fusefs.Server) (cause any) {
	ended, lonely := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(ended)
		server.Wait()
	}()
	if p.Link != nil {
		go func() { lonely <- p.heed(server) }()
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-ended:
		return "unmounted"
	case err := <-lonely:
		return err
	}
}

// heed follows the keeper's messages until the keeper has ended.
func (p *Process) heed(server *fusefs.Server) error {
	for {
		what, _, _, err := p.Link.hear()
		switch {
		case err != nil:
			return fmt.Errorf("keeper: %w", err)
		case what == tellLeave:
			server.Leave()
			os.Exit(0) // the log and the journal have everything
		case what == tellGone:
			server.Recover()
		}
	}
}

// NoteCaller adds to the claim of the mount's session, in the background, the identity of
// its credentials. of returns the identity and the directory of the conflicts; an empty
// identity is not noted. The function that NoteCaller returns cancels this and waits.
func (p *Process) NoteCaller(ctx context.Context, session string, of func(context.Context) (caller, conflictsDir string, err error)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var noting sync.WaitGroup
	noting.Go(func() {
		caller, dir, err := of(ctx)
		if err == nil && caller != "" {
			err = noteCaller(dir, session, p.PID(), caller)
		}
		if err != nil {
			p.Log.Debug("note whose credentials these are", "err", err)
		}
	})
	return func() {
		cancel()
		noting.Wait()
	}
}

// TellService tells the service manager the state of this process. A service manager
// that does not receive it follows its own timeouts.
func (p *Process) TellService(state string) {
	if err := NotifyService(state); err != nil {
		p.Log.Warn("notify the service manager", "err", err)
	}
}

// DropPrivileges gives up the capabilities that a serving process does not need. If it
// cannot, the process continues with them.
func (p *Process) DropPrivileges() {
	if err := dropPrivileges(); err != nil && !errors.Is(err, syscall.ENOTSUP) {
		p.Log.Warn("capabilities are not dropped", "err", err)
	}
}
