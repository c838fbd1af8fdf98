package main

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

// answers reports whether somebody serves the mount, perhaps a daemon that has
// another process id in its own namespace. statfs always goes to the daemon.
// Another process asks: if nobody answers, not even SIGKILL frees that one.
func (s *mountSite) answers() bool {
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

// clear takes the mount of a dead daemon out of the directory tree, and frees
// whoever waits for an answer. A thread of the daemon that waited in the kernel
// when it was killed, for a page that a reader of the mount holds, keeps the
// connection alive: then both wait for ever.
func (s *mountSite) clear() error {
	if os.Geteuid() != 0 {
		// fusermount3 has nothing of the kind; the connection is this user's own.
		_ = os.WriteFile(fmt.Sprintf("/sys/fs/fuse/connections/%s/abort", s.mount.minor), []byte("1"), 0)
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
