package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"mneme/backend"
	"mneme/daemon"
)

// keep runs the keeper of a mount. It returns the exit code of the process that served
// last.
func (c *mountCmd) keep(ctx context.Context, a *app, parent *os.File) (int, error) {
	wanted, err := c.check()
	if err != nil {
		return 0, err
	}
	if err := c.settle(ctx, a.url, wanted); err != nil { // for all processes that serve
		return 0, err
	}
	claim, err := claimWanted(a.url, c.Session, wanted)
	if err != nil {
		return 0, err
	}
	defer claim.Close()
	o := &daemon.KeepOptions{
		At: c.At, Flat: c.Flat, Session: c.Session, Args: a.args,
		Level: c.logLevel(parent == nil && a.ErrIsTerminal), Text: withAdvice,
	}
	for _, w := range wanted {
		o.ReadOnly = append(o.ReadOnly, w.readOnly)
	}
	return daemon.Keep(o, parent)
}

// settle names the session of a mount whose stores are not open yet. It makes the stores
// read-only that the credential may only read.
func (c *mountCmd) settle(ctx context.Context, url *string, wanted []wantedStore) error {
	at, err := locate(url)
	if err != nil {
		return err
	}
	if at.Server == nil { // a server names the session
		c.Session, err = sessionName(c.Session)
		return err
	}
	lib, err := openAt(ctx, at, backend.Options{ReadOnly: true, Direct: true})
	if err != nil {
		return err
	}
	return errors.Join(c.obey(ctx, lib, wanted), lib.Close())
}

// newLogger returns the logger of a daemon, which adds advice to errors.
func newLogger(level slog.Level) *slog.Logger { return daemon.NewLogger(level, withAdvice) }

// claimWanted claims a session that can write to one of the stores. A nil file is no claim.
func claimWanted(url *string, session string, wanted []wantedStore) (*os.File, error) {
	if allReadOnly(wanted) {
		return nil, nil
	}
	at, err := locate(url)
	if err != nil {
		return nil, err
	}
	if at.Check() != nil {
		return nil, nil // it cannot be opened either, and gets no directory
	}
	dir, err := at.ConflictsDir()
	if err != nil {
		return nil, err
	}
	claim, err := daemon.Claim(dir, session)
	if unusable := (*daemon.ClaimDirError)(nil); errors.As(err, &unusable) {
		err = fmt.Errorf("%w; $%s names another directory", err, backend.ConflictsVariable)
	}
	return claim, err
}

// noteCaller adds the identity of the mount's credentials to its claim, in the background.
// The function that it returns cancels this and waits.
func (c *mountCmd) noteCaller(ctx context.Context, lib *backend.Library, wanted []wantedStore) (end func()) {
	if allReadOnly(wanted) {
		return func() {}
	}
	return c.process.NoteCaller(ctx, c.Session, func(ctx context.Context) (caller, conflictsDir string, err error) {
		if caller, err = lib.Caller(ctx); err == nil {
			conflictsDir, err = lib.Location.ConflictsDir()
		}
		return caller, conflictsDir, err
	})
}
