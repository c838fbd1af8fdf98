package main

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// keptCapabilities are what a daemon of root's needs after it has mounted: to unmount,
// to see which process has a file open, and to serve metrics at any port.
const keptCapabilities = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_NET_BIND_SERVICE

// dropPrivileges gives up all capabilities of this process but those, and what it could
// gain by executing a program. As another user than root it has none. Go changes all
// threads of a program without C only: of one with C nothing is dropped, ENOTSUP. It
// stops all of them until each has done so: none may be waiting for this process to
// answer the kernel, as one that tells the kernel of a change may.
func dropPrivileges() error {
	if os.Geteuid() != 0 {
		return nil
	}
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("prctl", errno)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	for i := range has {
		kept := uint32(keptCapabilities >> (32 * i))
		has[i] = unix.CapUserData{Effective: has[i].Effective & kept, Permitted: has[i].Permitted & kept}
	}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&has[0])), 0)
	if errno != 0 {
		return os.NewSyscallError("capset", errno)
	}
	return nil
}

// dropPrivileges is that of a daemon, which goes on with what it cannot drop.
func (c *mountCmd) dropPrivileges() {
	if err := dropPrivileges(); err != nil && !errors.Is(err, syscall.ENOTSUP) {
		c.log.Warn("capabilities are not dropped", "err", err)
	}
}
