package sessions

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Settings of Go. The garbage collector overwrites memory that it frees. It leaves stacks
// in place, since it would not overwrite old ones (see cas.Sum). It stops goroutines
// without signals: the kernel writes a thread's registers, with the data copied last, where
// only the thread's next signal overwrites them. A process reads the settings once, when it
// begins (package runtime, "Environment Variables").
const (
	overwriting = "clobberfree=1"
	stacksStay  = "gcshrinkstackoff=1"
	noSignals   = "asyncpreemptoff=1"
)

// OverwriteFreed makes a process that serves overwrite the memory that it frees, so that an
// erased text is not found there. Child processes inherit the setting. If serves is set,
// this process executes itself again. A value in the environment stays.
func OverwriteFreed(serves bool) error {
	set := os.Getenv("GODEBUG")
	if name, _, _ := strings.Cut(overwriting, "="); strings.Contains(set, name) {
		return nil
	}
	if set != "" {
		set += ","
	}
	if err := os.Setenv("GODEBUG", set+strings.Join([]string{overwriting, stacksStay, noSignals}, ",")); err != nil || !serves {
		return err
	}
	self, err := os.Executable()
	if err == nil {
		err = syscall.Exec(self, os.Args, os.Environ())
	}
	return fmt.Errorf("begin anew with GODEBUG=%s: %w", overwriting, err)
}
