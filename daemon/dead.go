package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"mneme/internal/fusedev"
)

// answerPatience is how long a daemon that may be dead has to answer.
const answerPatience = 2 * time.Second

// Answers reports whether a process serves the mount. That may be a daemon which has
// another process id in its own namespace. statfs always goes to the daemon. A child
// process calls it: if the daemon does not answer, not even SIGKILL ends the caller.
func (s *Site) Answers() bool {
	stat := exec.Command("stat", "--file-system", "--dereference", "--", "/proc/self/fd/3")
	stat.ExtraFiles = []*os.File{s.File} // 3
	if stat.Start() != nil {
		return false
	}
	done := make(chan error, 1)
	go func() { done <- stat.Wait() }()
	select {
	case err := <-done:
		return err == nil
	case <-time.After(answerPatience):
		return false
	}
}

// Clear takes the mount of a dead daemon out of the directory tree, and frees the
// programs that wait for an answer. Without Clear, a thread of the killed daemon may keep
// the connection alive: it waits in the kernel for a page that a reader of the mount
// holds, and both wait permanently.
func (s *Site) Clear() error {
	if os.Geteuid() != 0 {
		// fusermount3 cannot abort; the connection belongs to this user.
		_ = os.WriteFile(fmt.Sprintf("/sys/fs/fuse/connections/%s/abort", s.Mount.minor), []byte("1"), 0)
	}
	if err := explainDetach(fusedev.Detach(s.Dir, true)); err != nil {
		return err
	}
	there, err := s.there()
	if there {
		err = errors.Join(err, errors.New("something else was mounted on it in the same moment; try again"))
	}
	return err
}
