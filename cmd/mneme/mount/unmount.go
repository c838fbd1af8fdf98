package mount

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/view"
	"mneme/daemon"
	"mneme/internal/quote"
)

// UnmountCmd is the command `mneme unmount`.
type UnmountCmd struct {
	Dir  string `arg:"" optional:"" help:"Where the stores are mounted. Default: ${mountdir}."`
	At   string `placeholder:"DIR" help:"The same, as mount has it."`
	Lazy bool   `help:"Only take the mount out of the directory tree; who uses it goes on, and it ends with its last user."`
}

func (c *UnmountCmd) Help() string {
	return `Commits what is open, and ends the mount for everybody: programs that have files of it open, stand in it, or see it in a container get errors from then on. Returns within five seconds. A mount whose daemon has died is cleared.

Examples:

    mneme unmount
    mneme unmount ~/memory --lazy`
}

func (c *UnmountCmd) Run(_ context.Context, a *app.App) error {
	if c.Dir != "" && c.At != "" {
		return app.Usagef("%s and --at %s are two directories; want one", c.Dir, c.At)
	}
	site, err := daemon.Find(cmp.Or(c.Dir, c.At, app.DefaultMountDir))
	if err != nil {
		return err
	}
	defer site.Close()
	dir, began, alive := site.Path(), time.Now(), site.Mount.Alive()
	var users []string
	switch {
	case c.Lazy && (alive || site.Answers()):
		err = site.Detach()
	case alive:
		users = daemon.Users(dir)
		err = site.End()
	default: // dead, or where this process cannot see it: then it commits when it finds the connection aborted
		err = site.Clear()
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	var kept []daemon.LeftFile
	if alive && !c.Lazy {
		if kept, err = daemon.ReadNote(site.Mount.PID, began); err != nil {
			return fmt.Errorf("%s is unmounted, but what was kept of files that were not committed is not known: %w", dir, err)
		}
	}
	if a.JSON {
		return a.PrintJSON(struct {
			Unmounted string            `json:"unmounted"`
			Kept      []daemon.LeftFile `json:"kept,omitempty"`
		}{dir, kept})
	}
	a.Printf("%s is unmounted.\n", quote.Text(dir))
	if len(users) > 0 {
		a.Printf("It was in use by %s.\n", quote.Text(strings.Join(users, ", ")))
	}
	view.PrintLeft(a, kept)
	return nil
}
