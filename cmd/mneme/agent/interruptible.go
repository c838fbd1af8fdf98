package agent

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// interruptible returns a file for f whose Read and Write end when it is closed. It does
// not change f's flags, which other processes share. If that is not possible, it returns f:
// a plain file never blocks.
func interruptible(f *os.File, access int) *os.File {
	info, err := f.Stat()
	if err != nil {
		return f
	}
	switch mode := info.Mode(); {
	case mode&(os.ModeNamedPipe|os.ModeCharDevice) != 0:
		again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), access|unix.O_NONBLOCK, 0)
		if err == nil {
			return again
		}
	case mode&os.ModeSocket != 0:
		// A socket cannot be opened again, so its flag is set. A second descriptor spares this
		// process the signal that the first one sends when the other end closes.
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		if err == nil && unix.SetNonblock(fd, true) == nil {
			return os.NewFile(uintptr(fd), f.Name())
		}
	}
	return f
}
