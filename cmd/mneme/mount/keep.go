package mount

import (
	"context"
	"errors"
	"os"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/sessions"
	"mneme/daemon"
)

// keep runs the keeper of a mount. It returns the exit code of the process that served
// last.
func (c *MountCmd) keep(ctx context.Context, a *app.App, parent *os.File) (int, error) {
	wanted, err := c.check()
	if err != nil {
		return 0, err
	}
	if err := c.settle(ctx, a.URL, wanted); err != nil { // for all processes that serve
		return 0, err
	}
	claim, err := sessions.ClaimWanted(a.URL, c.Session, wanted)
	if err != nil {
		return 0, err
	}
	defer claim.Close()
	o := &daemon.KeepOptions{
		At: c.At, Flat: c.Flat, Session: c.Session, Args: a.Args,
		Level: c.logLevel(parent == nil && a.ErrIsTerminal), Text: app.WithAdvice,
	}
	for _, w := range wanted {
		o.ReadOnly = append(o.ReadOnly, w.ReadOnly)
	}
	return daemon.Keep(o, parent)
}

// settle names the session of a mount whose stores are not open yet. It makes the stores
// read-only that the credential may only read.
func (c *MountCmd) settle(ctx context.Context, url *string, wanted []sessions.WantedStore) error {
	at, err := app.Locate(url)
	if err != nil {
		return err
	}
	if at.Server == nil { // a server names the session
		c.Session, err = sessions.SessionName(c.Session)
		return err
	}
	lib, err := app.OpenAt(ctx, at, backend.Options{ReadOnly: true, Direct: true})
	if err != nil {
		return err
	}
	return errors.Join(c.obey(ctx, lib, wanted), lib.Close())
}

// noteCaller adds the identity of the mount's credentials to its claim, in the background.
// The function that it returns cancels this and waits.
func (c *MountCmd) noteCaller(ctx context.Context, lib *backend.Library, wanted []sessions.WantedStore) (end func()) {
	if sessions.AllReadOnly(wanted) {
		return func() {}
	}
	return c.process.NoteCaller(ctx, c.Session, func(ctx context.Context) (caller, conflictsDir string, err error) {
		if caller, err = lib.Caller(ctx); err == nil {
			conflictsDir, err = lib.Location.ConflictsDir()
		}
		return caller, conflictsDir, err
	})
}
