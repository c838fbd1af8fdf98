package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"mneme/backend"
	"mneme/errkind"
	"mneme/fusefs"
	"mneme/internal/fusedev"
	"mneme/internal/handover"
	"mneme/memory"
)

// showLife tells the keeper of a thread that ends as soon as the process is killed, whatever other
// threads wait for.
func (l *keeperLink) showLife() error { return l.tellNumber(tellThread, fusedev.LifeThread()) }

// pid is the process id that the mount is named after.
func (c *mountCmd) pid() int { return cmp.Or(c.keeper.pid(), os.Getpid()) }

// connect mounts, or takes over a mount that another process has served. It returns
// where that is, as mountinfo spells it.
func (c *mountCmd) connect(ctx context.Context, stores []*memory.Store, o *fusefs.Options) (*fusefs.Server, string, error) {
	if c.keeper.takesOver() {
		return c.takeOver(ctx, stores, o)
	}
	site, err := makeMountDir(c.At)
	if err != nil {
		return nil, "", err
	}
	defer site.Close()
	dir := site.Path()
	o.On = site.File
	if site.Made() {
		c.made = dir
	}
	server, err := fusefs.Mount(ctx, dir, stores, o)
	if err != nil {
		return nil, "", errors.Join(explainMount(err), c.removeMade())
	}
	if c.keeper != nil {
		err = c.keeper.tell(tellMounted, server.Device(), int(server.Journal().File().Fd()))
		if err == nil {
			err = c.keeper.tell(tellServing)
		}
	}
	return server, dir, err
}

// removeMade removes the directory that was made to mount at, of a mount that failed,
// unless something is in it by now.
func (c *mountCmd) removeMade() error {
	if c.made == "" {
		return nil
	}
	err := syscall.Rmdir(c.made)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ENOENT) {
		return nil
	}
	return err
}

// takeOver goes on with a mount when its keeper says so.
func (c *mountCmd) takeOver(ctx context.Context, stores []*memory.Store, o *fusefs.Options) (*fusefs.Server, string, error) {
	dir, err := mountDir(c.At) // which is not asked: nobody may answer
	if err != nil {
		return nil, "", err
	}
	files, err := c.keeper.await(tellJournal, 1)
	if err != nil {
		return nil, "", err
	}
	journal, err := handover.Open(os.NewFile(uintptr(files[0]), "journal"))
	if err != nil {
		return nil, "", err
	}
	if err := c.keeper.tell(tellPrepared); err != nil {
		return nil, "", err
	}
	device, err := c.keeper.await(tellTakeOver, 1)
	if err != nil {
		return nil, "", err
	}
	server, err := fusefs.TakeOver(ctx, dir, device[0], journal, stores, o)
	if err != nil {
		return nil, "", fmt.Errorf("take over the mount at %s: %w", dir, err)
	}
	return server, dir, c.keeper.tell(tellServing)
}

// tellFailed tells the keeper why its mount cannot be taken over, if that passes by itself: the stores do
// not answer, or the credential for them does not count.
func (l *keeperLink) tellFailed(err error) {
	if l.takesOver() && (errkind.Of(err) == errkind.Unavailable || errors.Is(err, backend.ErrCredential)) {
		_ = l.tell(tellAway) // a keeper that is gone need not know
	}
}

// awaitEnd returns when the mount has ended, or is to, and why. When another
// process is to take over, this one ends here.
func (c *mountCmd) awaitEnd(ctx context.Context, server *fusefs.Server) (cause any) {
	ended, lonely := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(ended)
		server.Wait()
	}()
	if c.keeper != nil {
		go func() { lonely <- c.heed(server) }()
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

// heed does what the keeper says, until it has ended.
func (c *mountCmd) heed(server *fusefs.Server) error {
	for {
		what, _, _, err := c.keeper.hear()
		switch {
		case err != nil:
			return fmt.Errorf("keeper: %w", err)
		case what == tellLeave:
			server.Leave()
			os.Exit(0) // nothing that it has is missing
		case what == tellGone:
			server.Recover()
		}
	}
}

// tellEnded tells the keeper, if there is one, that the mount has ended.
func (l *keeperLink) tellEnded() {
	if l != nil {
		_ = l.tell(tellEnded) // one that is gone need not know
	}
}
