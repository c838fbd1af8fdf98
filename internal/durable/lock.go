package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// TryLock locks a file (flock) that no other process has locked, until the file is
// closed. EWOULDBLOCK.
func TryLock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
