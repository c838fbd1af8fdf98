package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// The settings of Go by which its garbage collector overwrites what it frees, leaves stacks where
// they are, which it would not overwrite (see cas.Sum), and stops goroutines without signals: the
// kernel writes a thread's registers, with what was copied last, where only the thread's next
// signal overwrites them. They are read once, when a process begins (package runtime, "Environment
// Variables").
const (
	overwriting = "clobberfree=1"
	stacksStay  = "gcshrinkstackoff=1"
	noSignals   = "asyncpreemptoff=1"
)

// overwriteFreed has the process that serves a mount overwrite the memory that it frees, so that
// a text which is erased from the store is not found there. Processes that this one starts have
// that from their environment; with serves, this one begins anew. A value that the environment
// has already stays.
func overwriteFreed(serves bool) error {
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
