package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

type unmountCmd struct {
	Dir  string `arg:"" optional:"" help:"Where the stores are mounted. Default: ${mountdir}."`
	At   string `placeholder:"DIR" help:"The same, as mount has it."`
	Lazy bool   `help:"Only take the mount out of the directory tree; who uses it goes on, and it ends with its last user."`
}

func (c *unmountCmd) Help() string {
	return `Commits what is open, and ends the mount for everybody: programs that have files of it open, stand in it, or see it in a container get errors from then on. Returns within five seconds. A mount whose daemon has died is cleared.

Examples:

    mneme unmount
    mneme unmount ~/memory --lazy`
}

// endPatience is how long the daemon may take to end; it means to take less.
const endPatience = 4500 * time.Millisecond

func (c *unmountCmd) Run(_ context.Context, a *app) error {
	if c.Dir != "" && c.At != "" {
		return usagef("%s and --at %s are two directories; want one", c.Dir, c.At)
	}
	site, err := mountAt(cmp.Or(c.Dir, c.At, defaultMountDir))
	if err != nil {
		return err
	}
	defer site.Close()
	dir, began, alive := site.Path(), time.Now(), site.mount.alive()
	var users []string
	switch {
	case c.Lazy && (alive || site.answers()):
		err = site.detach()
	case alive:
		users = mountUsersSoon(dir)
		err = site.end()
	default: // dead, or where this process cannot see it: then it commits when it finds the connection aborted
		err = site.clear()
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	var kept []leftFile
	if alive && !c.Lazy {
		if kept, err = readNote(site.mount.pid, began); err != nil {
			return fmt.Errorf("%s is unmounted, but what was kept of files that were not committed is not known: %w", dir, err)
		}
	}
	if a.json {
		return a.printJSON(struct {
			Unmounted string     `json:"unmounted"`
			Kept      []leftFile `json:"kept,omitempty"`
		}{dir, kept})
	}
	a.printf("%s is unmounted.\n", printable(dir))
	if len(users) > 0 {
		a.printf("It was in use by %s.\n", printable(strings.Join(users, ", ")))
	}
	a.printLeft(kept)
	return nil
}

// end makes the daemon, which lives, commit and end the mount. If it does not, the
// mount is cleared all the same.
func (s *mountSite) end() error {
	pid := s.mount.pid
	// Held from before, so that its number cannot pass to another process.
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
	if there, err := s.there(); err != nil || there { // here, if not where the daemon is
		if err := errors.Join(err, s.clear()); err != nil {
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
		left := max(0, time.Until(deadline)) // poll takes less than 0 for ever
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

// mountUsersSoon is mountUsers, or nobody when that takes long: the kernel tells the
// links of a process that executes a program only when this has closed what is not
// inherited, for which it may wait for a mount that does not answer.
func mountUsersSoon(dir string) []string {
	const patience = time.Second
	found := make(chan []string, 1)
	go func() { found <- mountUsers(dir) }()
	select {
	case users := <-found:
		return users
	case <-time.After(patience):
		return nil
	}
}

// mountUsers names some other processes that are in dir or have files of it open.
// It reads links of /proc only, never the mount.
func mountUsers(dir string) []string {
	const enough = 5
	var users []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range procs {
		if proc == fmt.Sprintf("/proc/%d", os.Getpid()) {
			continue
		}
		links, _ := filepath.Glob(filepath.Join(proc, "fd", "*"))
		for _, link := range append(links, filepath.Join(proc, "cwd"), filepath.Join(proc, "root")) {
			target, err := os.Readlink(link)
			if err != nil || target != dir && !strings.HasPrefix(target, dir+"/") {
				continue
			}
			name, _ := os.ReadFile(filepath.Join(proc, "comm"))
			users = append(users, fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), filepath.Base(proc)))
			break
		}
		if len(users) == enough {
			break
		}
	}
	return users
}
