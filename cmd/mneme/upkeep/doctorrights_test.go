package upkeep

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"mneme/internal/testing/skip"
)

// onThread calls f in a thread of its own that has given something up, and ends with it.
func onThread(t *testing.T, giveUp func() error, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocks it
		err := giveUp()
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// asNobody calls f as a user who is not root.
func asNobody(t *testing.T, f func()) {
	onThread(t, func() error {
		const nobody = 65534
		if os.Geteuid() != 0 {
			return nil
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			return os.NewSyscallError("setresuid", errno)
		}
		return nil
	}, f)
}

// withoutMounts calls f as root who may not mount.
func withoutMounts(t *testing.T, f func()) {
	if os.Geteuid() != 0 {
		skip.Because(t, "only root has the right to mount")
	}
	onThread(t, func() error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var has [2]unix.CapUserData
		if err := unix.Capget(&header, &has[0]); err != nil {
			return err
		}
		has[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
		return unix.Capset(&header, &has[0])
	}, f)
}
