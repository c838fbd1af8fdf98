// Package harness is what the tests of the packages beside it share: it builds the
// real command, starts its mounts, and uses them as people and agents do, from
// other processes. The test process itself never touches a mount, and whatever a
// test does is bounded in time.
package harness

import (
	"fmt"
	"os"
	"testing"
)

// Main runs the tests of a package, or what a child of that role does, and returns
// the exit code. The package's own roles come in addition to those of this one.
func Main(m *testing.M, roles map[string]func(args []string) error) int {
	if role := os.Getenv(ChildVariable); role != "" {
		return runChild(roles, role, os.Args[1:])
	}
	return runTests(m)
}

// ownRoles are what children of every package may do, given their arguments.
var ownRoles = map[string]func(args []string) error{
	"write": writerChild,
	"agent": func(args []string) error { return AgentChild(args, nil) },
	"hold":  holdChild,
}

func runChild(roles map[string]func(args []string) error, role string, args []string) int {
	does := roles[role]
	if does == nil {
		does = ownRoles[role]
	}
	if does == nil {
		fmt.Fprintf(os.Stderr, "no child of this package has the role %q\n", role)
		return 1
	}
	if err := does(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runTests(m *testing.M) (code int) {
	var err error
	if WorkDir, err = os.MkdirTemp("", "mneme-tests-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if left := MountsBelow(WorkDir); len(left) > 0 {
			fmt.Fprintln(os.Stderr, "left mounted:", left)
			code = 1
			return
		}
		if err := os.RemoveAll(WorkDir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	if err := os.Chmod(WorkDir, 0o755); err != nil { // other users take part
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if Binary, Daemon, err = Build(WorkDir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
