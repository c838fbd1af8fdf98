package mount

import (
	"encoding/json"
	"fmt"

	"mneme/cmd/mneme/app"
	"mneme/daemon"
)

// runBackground starts a daemon that mounts, and returns when it has.
func (c *MountCmd) runBackground(a *app.App) error {
	dir, err := daemon.MountDir(c.At)
	if err != nil {
		return err
	}
	m, log, err := daemon.Background(c.At, a.Args, func(text []byte) error {
		var reply app.ErrorReply
		if err := json.Unmarshal(text, &reply); err != nil || reply.Error == nil {
			return err
		}
		return reply.Error
	})
	if err != nil {
		return err
	}
	if !a.IsTerminal && !a.JSON {
		return nil
	}
	unmount := a.Command() + " unmount"
	if dir != app.DefaultMountDir {
		unmount += " --at " + dir
	}
	return printMounted(a, m, fmt.Sprintf("`%s` ends it. Its log is %s.", unmount, log))
}
