// Package openfiles tells what /proc shows of the processes whose requests a mount
// answers: which of them have a file of the mount open, and which signals wait for
// them.
package openfiles

import (
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
)

// Scanner answers questions about the files of one mount. It is safe for use by many
// goroutines. The zero value sees no process: its answers are Unknown, or nothing.
type Scanner struct {
	limits *limits                // nil: /proc does not show the processes that requests name
	device atomic.Pointer[string] // "major:minor" of the mount; nil: not known, and no file is of it
}

// New returns a Scanner for a mount whose device is not known yet.
func New() *Scanner {
	if !seesProcesses() {
		return &Scanner{}
	}
	return &Scanner{limits: newLimits()}
}

// Mounted says which device the mount is, "major:minor" as proc_pid_mountinfo(5) has it.
func (s *Scanner) Mounted(device string) { s.device.Store(&device) }

// HasOpen says whether the process of a thread has the file with that inode number of
// the mount open for writing.
func (s *Scanner) HasOpen(thread uint32, inode uint64) Answer {
	return s.scan(uint64(thread), inode, func(sc *scan) Answer { return sc.hasOpen(uint64(thread), sc.process) })
}

// AncestryHasOpen says whether the process of a thread, or one that it descends from,
// has the file with that inode number of the mount open for writing. It looks at as
// many of these others as it can see: one of another user, or outside of a container,
// has no business with the file.
func (s *Scanner) AncestryHasOpen(thread uint32, inode uint64) Answer {
	return s.scan(uint64(thread), inode, func(sc *scan) Answer { return sc.ancestryHasOpen(uint64(thread)) })
}

// SameProcess reports whether two threads are known to be of one process.
func (s *Scanner) SameProcess(a, b uint32) bool {
	if s.limits == nil {
		return false
	}
	_, err := os.Stat(procDir(uint64(b)) + "/task/" + strconv.FormatUint(uint64(a), 10))
	return err == nil
}

// Pending returns those of SIGKILL, SIGINT, SIGQUIT, SIGTERM and SIGHUP that are
// pending for a thread, or for its process, and that the thread does not block; nil
// also where the thread cannot be seen. These are the signals by which a program is asked
// to stop.
func (s *Scanner) Pending(thread uint32) []syscall.Signal {
	if s.limits == nil || thread == 0 {
		return nil
	}
	status, err := os.ReadFile(procDir(uint64(thread)) + "/status")
	if err != nil {
		return nil
	}
	return pending(status)
}

// scan asks a question for a thread about the file with that inode number, within the
// limits.
func (s *Scanner) scan(thread, inode uint64, ask func(*scan) Answer) Answer {
	if s.limits == nil || thread == 0 {
		return Unknown
	}
	process, end := s.limits.begin(thread)
	defer end()
	defer s.limits.takeTurn(maxTurn)()
	sc := &scan{limits: s.limits, process: process, inode: strconv.FormatUint(inode, 10), descriptors: maxDescriptors}
	if device := s.device.Load(); device != nil {
		sc.device = *device
	}
	runtime.LockOSThread() // whose time counts
	defer runtime.UnlockOSThread()
	granted := s.limits.grant()
	sc.began = s.limits.processorTime()
	sc.ends = sc.began + granted
	defer func() { s.limits.spend(granted, s.limits.processorTime()-sc.began) }()
	return ask(sc)
}
