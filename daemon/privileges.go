package daemon

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// keptCapabilities are the capabilities that a daemon of root needs after it has mounted:
// to unmount, to see which process has a file open, and to serve metrics at any port.
const keptCapabilities = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_NET_BIND_SERVICE

// dropPrivileges gives up all other capabilities of this process, and those that it could
// gain by executing a program. A process of another user has none. Go can change all
// threads only of a program without C: in a program with C it fails with ENOTSUP and drops
// nothing. It stops all threads until each has done so. Therefore no thread may wait for
// this process to answer the kernel, as a thread that sends a notice to the kernel may.
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
