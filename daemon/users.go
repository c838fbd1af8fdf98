package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// HasOpenBelow reports whether a process has a file below dir open, as far as this user
// may look.
func HasOpenBelow(pid int, dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(links, func(link string) bool {
		target, err := os.Readlink(link)
		return err == nil && strings.HasPrefix(target, dir+"/")
	})
}

// Children returns the running processes that a process has started, by number.
func Children(pid int) (all []int) {
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
	slices.Sort(all)
	return all
}

// Users names some other processes that are in dir or have files of it open. It returns
// none if that takes long: while a process executes a program, the kernel does not return
// its links until it has closed its files, which may wait for a mount that does not
// answer.
func Users(dir string) []string {
	const patience = time.Second
	found := make(chan []string, 1)
	go func() { found <- users(dir) }()
	select {
	case users := <-found:
		return users
	case <-time.After(patience):
		return nil
	}
}

// users is Users without a limit of time. It reads links of /proc only, never the mount.
func users(dir string) []string {
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
