package daemon

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// inContainer says which options a container needs for mounts.
const inContainer = "a container needs --cap-add SYS_ADMIN --device " + fuseDevice

var errMayNotMount = errors.New("mounting takes the capability CAP_SYS_ADMIN, which this process is denied; " + inContainer)

// mayMount reports whether this process may mount. For a user other than root, it reports
// whether fusermount3 may mount as a child of this process.
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

// explainMount adds to the error of a mount that the kernel has denied how to allow it.
func explainMount(err error) error {
	if errors.Is(err, unix.EPERM) || err != nil && strings.Contains(err.Error(), "Operation not permitted") { // the text of fusermount3
		return fmt.Errorf("%w; %s, and a security profile that allows mounting", err, inContainer)
	}
	return err
}
