package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mneme/versionlog"
)

type unmountCmd struct {
	Dir  string `arg:"" optional:"" help:"Where the stores are mounted. Default: ${mountdir}."`
	At   string `placeholder:"DIR" help:"The same, as mount has it."`
	Lazy bool   `help:"Detach the mount though it is in use; it ends with its last user."`
}

func (c *unmountCmd) Help() string {
	return `Returns when everything that was written is saved, and says what is not in the history but kept as a conflict: what programs left under names of scratch files. A mount whose daemon has died is cleared.

Examples:

    mneme unmount
    mneme unmount ~/memory --lazy`
}

// savePatience is how long the daemon may take for its last commits.
const savePatience = time.Minute

func (c *unmountCmd) Run(_ context.Context, a *app) error {
	if c.Dir != "" && c.At != "" {
		return usagef("%s and --at %s are two directories; want one", c.Dir, c.At)
	}
	dir, err := mountDir(cmp.Or(c.Dir, c.At, defaultMountDir))
	if err != nil {
		return err
	}
	m, found, err := findMount(dir)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("a mount of mneme at %s: %w; `mneme status` lists the mounts", dir, versionlog.ErrNotFound)
	}
	daemon, alive := -1, m.alive()
	if alive {
		// Held from before, so that its number cannot pass to another process.
		if daemon, err = unix.PidfdOpen(m.pid, 0); err != nil {
			return fmt.Errorf("find the daemon, process %d: %w", m.pid, err)
		}
		defer unix.Close(daemon)
	}
	began := time.Now()
	if !alive && !m.answers() {
		err = m.clear()
	} else {
		err = detach(dir, c.Lazy || !alive)
	}
	if err != nil {
		return explainBusy(dir, err)
	}
	if alive && !c.Lazy {
		if err := waitForExit(daemon); err != nil {
			return fmt.Errorf("%s is unmounted, but process %d that served it: %w", dir, m.pid, err)
		}
	}
	var kept []leftFile
	if alive && !c.Lazy {
		if kept, err = readNote(m.pid, began); err != nil {
			return fmt.Errorf("%s is unmounted, but what was kept of files that were not committed is not known: %w", dir, err)
		}
	}
	if a.json {
		return a.printJSON(struct {
			Unmounted string     `json:"unmounted"`
			Kept      []leftFile `json:"kept,omitempty"`
		}{dir, kept})
	}
	a.printf("%s is unmounted.\n", dir)
	a.printLeft(kept)
	return nil
}

// detach unmounts dir, as root by itself, else through fusermount3.
func detach(dir string, lazy bool) error {
	if os.Geteuid() == 0 {
		flags := unix.UMOUNT_NOFOLLOW
		if lazy {
			flags |= unix.MNT_DETACH
		}
		return unix.Unmount(dir, flags)
	}
	args := []string{"-u", "--", dir}
	if lazy {
		args = append([]string{"-z"}, args...)
	}
	out, err := exec.Command("fusermount3", args...).CombinedOutput()
	switch text := strings.TrimSpace(string(out)); {
	case errors.Is(err, exec.ErrNotFound):
		return errNoFusermount
	case strings.Contains(text, "busy"):
		return unix.EBUSY
	case err != nil:
		return fmt.Errorf("fusermount3: %w: %s", err, text)
	}
	return nil
}

func waitForExit(pidfd int) error {
	deadline := time.Now().Add(savePatience)
	for {
		left := time.Until(deadline)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		switch {
		case n > 0:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case left <= 0:
			return fmt.Errorf("has not ended after %v; its last commits may be missing", savePatience)
		}
	}
}

func explainBusy(dir string, err error) error {
	if !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	who := "by a process that this user may not see"
	if users := mountUsers(dir); len(users) > 0 {
		who = "by " + strings.Join(users, ", ")
	}
	return fmt.Errorf("unmount %s: it is in use %s; leave it there, or detach it all the same with --lazy: %w", dir, who, err)
}

// mountUsers names some of the processes that are in dir or have files of it
// open. It reads links of /proc only, never the mount.
func mountUsers(dir string) []string {
	const enough = 5
	var users []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range procs {
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
