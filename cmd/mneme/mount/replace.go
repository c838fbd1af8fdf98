package mount

import (
	"reflect"

	"github.com/alecthomas/kong"

	"mneme/cmd/mneme/app"
	"mneme/daemon"
	"mneme/internal/quote"
)

// replace has another process serve a mount, of the program that is installed now.
func (c *MountCmd) replace(a *app.App) error {
	var only MountCmd
	if err := kong.ApplyDefaults(&only, kong.Vars{"mountdir": c.At}); err != nil {
		return err
	}
	only.Replace = true
	if !reflect.DeepEqual(*c, only) {
		return app.Usagef("--replace goes with --at only: the mount goes on as it was made, with its stores and flags")
	}
	dir, pid, err := daemon.Replace(c.At)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(struct {
			Replaced string `json:"replaced"`
			PID      int    `json:"serving_pid"`
		}{dir, pid})
	}
	a.Printf("%s is served by process %d now.\n", quote.Text(dir), pid)
	return nil
}
