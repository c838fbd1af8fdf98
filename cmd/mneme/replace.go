package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"
)

// replacePatience is how long the next process may take to serve a mount.
const replacePatience = 30 * time.Second

// replace has a mount served by another process, of the program as it is now.
func (c *mountCmd) replace(a *app) error {
	var only mountCmd
	if err := kong.ApplyDefaults(&only, kong.Vars{"mountdir": c.At}); err != nil {
		return err
	}
	only.Replace = true
	if !reflect.DeepEqual(*c, only) {
		return usagef("--replace goes with --at only: the mount goes on as it was made, with its stores and flags")
	}
	site, err := mountAt(c.At)
	if err != nil {
		return err
	}
	defer site.Close()
	m, dir := site.mount, site.Path()
	if !m.alive() {
		return fmt.Errorf("the mount at %s has nobody who serves it; `mneme unmount --at %[1]s` clears it", dir)
	}
	before := children(m.pid)
	switch {
	case !isKeeper(m.pid):
		return usagef("the mount at %s has no keeper; it has to be made with --keep", dir)
	case len(before) == 0:
		return fmt.Errorf("no process serves the mount at %s now; its keeper, process %d, starts one as soon as that can work, and its log says what is in the way", dir, m.pid)
	}
	if err := unix.Kill(m.pid, unix.SIGHUP); err != nil {
		return fmt.Errorf("tell the keeper, process %d: %w", m.pid, err)
	}
	now, err := replaced(m.pid, before[0])
	if err == nil {
		err = answers(dir, replacePatience)
	}
	if err != nil {
		return fmt.Errorf("the mount at %s is still served by process %d: %w; the log of its keeper, process %d, says why", dir, before[0], err, m.pid)
	}
	if its, same := sameProgram(now); !same {
		return usagef("the mount at %s is served by process %d now, of %s, which is where its keeper looks for the program; this is another one", dir, now, printable(its))
	}
	if a.json {
		return a.printJSON(struct {
			Replaced string `json:"replaced"`
			PID      int    `json:"serving_pid"`
		}{dir, now})
	}
	a.printf("%s is served by process %d now.\n", printable(dir), now)
	return nil
}

// replaced waits until a keeper's mount is not served by a process any more, and
// returns the one that serves it then.
func replaced(keeper, was int) (now int, err error) {
	const startPatience = 2 * time.Second // until there is another one
	begun, seen := time.Now(), false
	for ; ; time.Sleep(10 * time.Millisecond) {
		all, took := children(keeper), time.Since(begun)
		switch {
		case len(all) == 1 && all[0] != was:
			return all[0], nil
		case len(all) > 1:
			seen = true
		case len(all) == 1 && (seen || took > startPatience):
			return 0, errors.New("another one has not started, or has ended before it could take over")
		}
		if took > replacePatience {
			return 0, fmt.Errorf("another one has not taken over within %v", replacePatience)
		}
	}
}

// answers waits until whoever serves a mount answers.
func answers(dir string, patience time.Duration) error {
	answer := make(chan error, 1)
	go func() {
		var info unix.Statfs_t
		answer <- unix.Statfs(dir, &info)
	}()
	select {
	case err := <-answer:
		return err
	case <-time.After(patience):
		return fmt.Errorf("the process that has taken over has not answered within %v", patience)
	}
}

// children returns the processes that a process has started and that run, by number.
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
	slices.Sort(all)
	return all
}

// isKeeper reports whether a process was started with --keep, and not by a keeper.
func isKeeper(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && slices.Contains(strings.Split(string(text), "\x00"), "--keep")
}

// sameProgram reports whether a process runs this program, and which it runs.
func sameProgram(pid int) (its string, same bool) {
	exe := fmt.Sprintf("/proc/%d/exe", pid)
	its, _ = os.Readlink(exe)
	there, errThere := os.Stat(exe)
	mine, errMine := os.Stat(ownProgram)
	return its, errThere == nil && errMine == nil && os.SameFile(there, mine)
}
