package main

import (
	"encoding/json"
	"fmt"

	"mneme/daemon"
)

// runBackground starts a daemon that mounts, and returns when it has.
func (c *mountCmd) runBackground(a *app) error {
	dir, err := daemon.MountDir(c.At)
	if err != nil {
		return err
	}
	m, log, err := daemon.Background(c.At, a.args, func(text []byte) error {
		var reply errorReply
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
	unmount := a.command() + " unmount"
	if dir != defaultMountDir {
		unmount += " --at " + dir
	}
	return a.printMounted(m, fmt.Sprintf("`%s` ends it. Its log is %s.", unmount, log))
}
