package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// A daemon in the background is this program, started by itself. Through a pipe it sends
// the process that started it one JSON value: the mount, or the error.
const (
	parentPipeVariable = "MNEME_PARENT_PIPE"
	parentPipeFD       = 3
)

// ParentPipe returns the pipe to the process that started this one as a daemon, or nil.
func ParentPipe() *os.File {
	if os.Getenv(parentPipeVariable) == "" {
		return nil
	}
	os.Unsetenv(parentPipeVariable)
	syscall.CloseOnExec(parentPipeFD)
	return os.NewFile(parentPipeFD, "parent")
}

// ReplyMounted tells the parent of the mount, and that it may exit. Afterwards the daemon
// depends on nothing of the place where it was started.
func ReplyMounted(parent *os.File, m Mounted) error {
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(parent).Encode(m), parent.Close())
}

// Background starts this program with args as a daemon that mounts at a directory, and
// returns when it has. log is the file of its log. failed returns the error in the reply
// of a daemon that could not mount, else nil.
func Background(at string, args []string, failed func(reply []byte) error) (m Mounted, log string, err error) {
	dir, err := MountDir(at)
	if err != nil {
		return m, "", err
	}
	path, err := logPath(dir)
	if err != nil {
		return m, "", err
	}
	_, logErr := os.Lstat(path)
	file, err := openLog(path)
	if err != nil {
		return m, "", err
	}
	defer file.Close()
	process, fromDaemon, err := startDaemon(file, path, args)
	if err != nil {
		return m, "", err
	}
	defer fromDaemon.Close()
	var reply json.RawMessage
	if json.NewDecoder(fromDaemon).Decode(&reply) != nil {
		return m, "", fmt.Errorf("the daemon ended before it had mounted: %w; its log is %s", process.Wait(), file.Name())
	}
	if err := failed(reply); err != nil {
		_ = process.Wait() // its exit code says the same
		if errors.Is(logErr, fs.ErrNotExist) {
			_ = os.Remove(path) // this call has made it, and it says no more than the error
		}
		return m, "", err
	}
	return m, file.Name(), json.Unmarshal(reply, &m)
}

// startDaemon starts this program as a daemon that logs to a file. It returns the pipe
// from the daemon.
func startDaemon(log *os.File, logPath string, args []string) (*exec.Cmd, *os.File, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	fromDaemon, toParent, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	process := exec.Command(self, args...)
	process.Env = append(os.Environ(), parentPipeVariable+"=1", logVariable+"="+logPath)
	process.Stdout, process.Stderr = log, log
	process.ExtraFiles = []*os.File{toParent} // parentPipeFD
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = process.Start()
	_ = toParent.Close()
	if err != nil {
		return nil, nil, errors.Join(err, fromDaemon.Close())
	}
	return process, fromDaemon, nil
}
