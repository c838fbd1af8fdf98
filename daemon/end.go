package daemon

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// endPatience is how long the daemon may take to end. It usually takes less.
const endPatience = 4500 * time.Millisecond

// End makes the living daemon commit and end the mount. If the daemon does not, End
// clears the mount.
func (s *Site) End() error {
	pid := s.Mount.PID
	// Held from now on, so that no other process can get its number.
	daemon, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("find the daemon, process %d: %w", pid, err)
	}
	defer unix.Close(daemon)
	if err := unix.PidfdSendSignal(daemon, unix.SIGTERM, nil, 0); err != nil {
		return fmt.Errorf("end the daemon, process %d: %w", pid, err)
	}
	ended, err := endsWithin(daemon, endPatience)
	if err != nil {
		return err
	}
	if there, err := s.there(); err != nil || there { // the daemon may have unmounted in another namespace only
		if err := errors.Join(err, s.Clear()); err != nil {
			return err
		}
	}
	if !ended {
		return fmt.Errorf("process %d that served it has not ended after %v; it is unmounted, but what was written last may not be saved before that process goes on", pid, endPatience)
	}
	return nil
}

// endsWithin reports whether a process ends within patience.
func endsWithin(pidfd int, patience time.Duration) (bool, error) {
	for deadline := time.Now().Add(patience); ; {
		left := max(0, time.Until(deadline)) // below 0, poll waits permanently
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		switch {
		case n > 0:
			return true, nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return false, fmt.Errorf("wait for the daemon: %w", err)
		case left == 0:
			return false, nil
		}
	}
}
