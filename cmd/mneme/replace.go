package main

import (
	"reflect"

	"github.com/alecthomas/kong"

	"mneme/daemon"
)

// replace has a mount served by another process, of the program as it is now.
func (c *mountCmd) replace(a *app) error {
	var only mountCmd
	if err := kong.ApplyDefaults(&only, kong.Vars{"mountdir": c.At}); err != nil {
		return err
	}
	only.Replace = true
	if !reflect.DeepEqual(*c, only) {
		return usagef("--replace goes with --at only: the mount goes on as it was made, with its stores and flags")
	}
	dir, pid, err := daemon.Replace(c.At)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			Replaced string `json:"replaced"`
			PID      int    `json:"serving_pid"`
		}{dir, pid})
	}
	a.printf("%s is served by process %d now.\n", printable(dir), pid)
	return nil
}
