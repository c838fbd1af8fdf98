package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// inContainer is what a container takes that mounts are made in.
const inContainer = "a container needs --cap-add SYS_ADMIN --device " + fuseDevice

var errMayNotMount = errors.New("mounting takes the capability CAP_SYS_ADMIN, which this process is denied; " + inContainer)

// mayMount reports whether this process may mount or, as another user than root, whether
// fusermount3 may that it starts.
func mayMount() bool {
	if os.Geteuid() != 0 {
		allowed, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_ADMIN, 0, 0, 0)
		return err != nil || allowed != 0
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	err := unix.Capget(&header, &has[0])
	return err != nil || has[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// explainMount says what to do about a mount that the kernel has denied.
func explainMount(err error) error {
	if errors.Is(err, unix.EPERM) || err != nil && strings.Contains(err.Error(), "Operation not permitted") { // as fusermount3 has it
		return fmt.Errorf("%w; %s, and a security profile that allows mounting", err, inContainer)
	}
	return err
}
