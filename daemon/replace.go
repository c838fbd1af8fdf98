package daemon

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mneme/internal/quote"
)

// replacePatience is how long the next process may take to serve a mount.
const replacePatience = 30 * time.Second

// DeadError says that no process serves the mount at a directory.
type DeadError struct{ Dir string }

func (e *DeadError) Error() string {
	return fmt.Sprintf("the mount at %s has nobody who serves it", e.Dir)
}

// Replace has a mount with a keeper served by another process, which runs the program
// that is installed now. It returns the mount's directory and the new process.
func Replace(at string) (dir string, pid int, err error) {
	site, err := Find(at)
	if err != nil {
		return "", 0, err
	}
	defer site.Close()
	m, dir := site.Mount, site.Path()
	if !m.Alive() {
		return dir, 0, &DeadError{dir}
	}
	before := Children(m.PID)
	switch {
	case !isKeeper(m.PID):
		return dir, 0, invalidf("the mount at %s has no keeper; it has to be made with --keep", dir)
	case len(before) == 0:
		return dir, 0, fmt.Errorf("no process serves the mount at %s now; its keeper, process %d, starts one as soon as that can work, and its log says what is in the way", dir, m.PID)
	}
	if err := unix.Kill(m.PID, unix.SIGHUP); err != nil {
		return dir, 0, fmt.Errorf("tell the keeper, process %d: %w", m.PID, err)
	}
	now, err := replaced(m.PID, before[0])
	if err == nil {
		err = answers(dir, replacePatience)
	}
	if err != nil {
		return dir, 0, fmt.Errorf("the mount at %s is still served by process %d: %w; the log of its keeper, process %d, says why", dir, before[0], err, m.PID)
	}
	if its, same := sameProgram(now); !same {
		return dir, now, invalidf("the mount at %s is served by process %d now, of %s, which is where its keeper looks for the program; this is another one", dir, now, quote.Text(its))
	}
	return dir, now, nil
}

// replaced waits until a process no longer serves a keeper's mount. It returns the
// process that serves it instead.
func replaced(keeper, was int) (now int, err error) {
	const startPatience = 2 * time.Second // until another process starts
	begun, seen := time.Now(), false
	for ; ; time.Sleep(10 * time.Millisecond) {
		all, took := Children(keeper), time.Since(begun)
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

// answers waits until the process that serves a mount answers.
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

// isKeeper reports whether a process was started with --keep, and not by a keeper.
func isKeeper(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && slices.Contains(strings.Split(string(text), "\x00"), "--keep")
}

// sameProgram reports whether a process runs this program. its is the program that it
// runs.
func sameProgram(pid int) (its string, same bool) {
	exe := fmt.Sprintf("/proc/%d/exe", pid)
	its, _ = os.Readlink(exe)
	there, errThere := os.Stat(exe)
	mine, errMine := os.Stat(OwnProgram)
	return its, errThere == nil && errMine == nil && os.SameFile(there, mine)
}
