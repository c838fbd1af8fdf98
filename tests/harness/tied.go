package harness

import (
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// StartTied starts a process whose Pdeathsig comes when the test process ends. The
// kernel sends it when the thread ends that started the process, so that thread
// does nothing else, and stays, until the process has ended.
func StartTied(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		for waiting := err == nil; waiting; {
			waiting = unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
}
