package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// A daemon is this program, started again by itself. Through a pipe it tells
// the process that started it what --json would tell a program: the mount, or
// the error.
const (
	parentPipeVariable = "MNEME_PARENT_PIPE"
	parentPipeFD       = 3
)

// parentPipe returns the pipe to the process that started this one as a
// daemon, or nil.
func parentPipe() *os.File {
	if os.Getenv(parentPipeVariable) == "" {
		return nil
	}
	os.Unsetenv(parentPipeVariable)
	syscall.CloseOnExec(parentPipeFD)
	return os.NewFile(parentPipeFD, "parent")
}

// replyMounted tells the parent that it may go. From then on nothing ties the
// daemon to where it was started.
func replyMounted(parent *os.File, m mounted) error {
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return errors.Join(writeJSON(parent, m), parent.Close())
}

// runBackground starts a daemon that mounts, and returns when it has.
func (c *mountCmd) runBackground(a *app) error {
	dir, err := mountDir(c.At)
	if err != nil {
		return err
	}
	logPath, err := daemonLogPath(dir)
	if err != nil {
		return err
	}
	_, logErr := os.Lstat(logPath)
	log, err := openDaemonLog(logPath)
	if err != nil {
		return err
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fromDaemon, toParent, err := os.Pipe()
	if err != nil {
		return err
	}
	defer fromDaemon.Close()
	daemon := exec.Command(self, a.args...)
	daemon.Env = append(os.Environ(), parentPipeVariable+"=1", daemonLogVariable+"="+logPath)
	daemon.Stdout, daemon.Stderr = log, log
	daemon.ExtraFiles = []*os.File{toParent} // parentPipeFD
	daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = daemon.Start()
	_ = toParent.Close()
	if err != nil {
		return err
	}
	var reply struct {
		mounted
		errorReply
	}
	if err := json.NewDecoder(fromDaemon).Decode(&reply); err != nil {
		return fmt.Errorf("the daemon ended before it had mounted: %w; its log is %s", daemon.Wait(), log.Name())
	}
	if reply.Error != nil {
		_ = daemon.Wait() // its exit code says the same
		if errors.Is(logErr, fs.ErrNotExist) {
			_ = os.Remove(logPath) // which this call has made, and says no more than the error
		}
		return reply.Error
	}
	if !a.terminal && !a.json {
		return nil
	}
	unmount := a.command() + " unmount"
	if dir != defaultMountDir {
		unmount += " --at " + dir
	}
	return a.printMounted(reply.mounted, fmt.Sprintf("`%s` ends it. Its log is %s.", unmount, log.Name()))
}
