package openfiles

import (
	"strconv"
	"syscall"
)

// endings are the signals by which a program is asked to stop.
var endings = []syscall.Signal{syscall.SIGKILL, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP}

// pending returns the endings that a "status" of /proc (proc_pid_status(5)) has as
// pending, of the thread or of its process, and not as blocked by the thread. SIGKILL
// cannot be blocked.
func pending(status []byte) (signals []syscall.Signal) {
	waiting := mask(status, "SigPnd") | mask(status, "ShdPnd")
	blocked := mask(status, "SigBlk")
	for _, signal := range endings {
		bit := uint64(1) << (signal - 1)
		if waiting&bit != 0 && (blocked&bit == 0 || signal == syscall.SIGKILL) {
			signals = append(signals, signal)
		}
	}
	return signals
}

// mask returns a line of signals, in which the first bit is signal 1.
func mask(status []byte, name string) uint64 {
	bits, _ := strconv.ParseUint(field(status, name), 16, 64)
	return bits
}
