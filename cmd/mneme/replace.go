package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mneme/versionlog"
)

// replacePatience is how long the next process may take to serve a mount.
const replacePatience = 30 * time.Second

// replace has a mount served by another process, of the program as it is now.
func (c *mountCmd) replace(a *app) error {
	if len(c.Stores) > 0 {
		return usagef("--replace takes no stores: the mount goes on as it was made")
	}
	dir, err := mountDir(c.At)
	if err != nil {
		return err
	}
	m, found, err := findMount(dir)
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("a mount of mneme at %s: %w; `mneme status` lists the mounts", dir, versionlog.ErrNotFound)
	case !m.alive():
		return fmt.Errorf("the mount at %s has nobody who serves it; `mneme unmount --at %[1]s` clears it", dir)
	}
	before := children(m.pid)
	if len(before) == 0 || !isKeeper(m.pid) {
		return usagef("the mount at %s has no keeper; it has to be made with --keep", dir)
	}
	if err := sameProgram(m.pid); err != nil {
		return err
	}
	if err := unix.Kill(m.pid, unix.SIGHUP); err != nil {
		return fmt.Errorf("tell the keeper, process %d: %w", m.pid, err)
	}
	for deadline := time.Now().Add(replacePatience); ; time.Sleep(10 * time.Millisecond) {
		now := children(m.pid)
		if len(now) == 1 && !slices.Contains(before, now[0]) && m.answers() {
			if a.json {
				return a.printJSON(struct {
					Replaced string `json:"replaced"`
					PID      int    `json:"serving_pid"`
				}{dir, now[0]})
			}
			a.printf("%s is served by process %d now.\n", dir, now[0])
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the mount at %s is still served as it was after %v; the log of its keeper, process %d, says why", dir, replacePatience, m.pid)
		}
	}
}

// children returns the processes that a process has started and that run.
func children(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(text)) {
			var child int
			if _, err := fmt.Sscan(field, &child); err == nil && !ended(child) {
				all = append(all, child)
			}
		}
	}
	return all
}

// isKeeper reports whether a process was started with --keep, and not by a keeper.
func isKeeper(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && slices.Contains(strings.Split(string(text), "\x00"), "--keep")
}

// sameProgram makes sure that a keeper starts this program when it is to replace who
// serves: the one that is where its own was.
func sameProgram(pid int) error {
	its, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return fmt.Errorf("find the keeper's program: %w", err)
	}
	its = strings.TrimSuffix(its, " (deleted)")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	there, errThere := os.Stat(its)
	mine, errMine := os.Stat(self)
	if errThere != nil || errMine != nil || !os.SameFile(there, mine) {
		return usagef("the mount would be served by %s, and this is %s; install the new program there, or call that one", printable(its), printable(self))
	}
	return nil
}
