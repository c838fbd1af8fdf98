// Package daemon runs the process that serves a mount, and finds and ends it from others.
// It starts the process in the background, gives it a keeper, lets
// another process take over, claims the mount's session, writes its log, and tells its
// service manager. For commands it lists the mounts of this machine, asks them for their
// stores, and ends, clears or replaces them. It uses fusefs and the packages below it. It
// parses no flags, opens no URL, prints nothing, and names no command in an error: the
// command line adds advice. Read keeper.go first, then process.go.
package daemon

import (
	"fmt"

	"mneme/errkind"
)

// ErrInUse says that another process on this machine uses a store, a session or a
// directory.
var ErrInUse = errkind.New(errkind.InUse, "in use")

// invalidf returns an error about how mneme was called.
func invalidf(format string, args ...any) error {
	return errkind.Wrap(errkind.Invalid, fmt.Errorf(format, args...))
}
