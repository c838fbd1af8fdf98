package openfiles

import (
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// scan is one search of /proc for a file of the mount.
type scan struct {
	limits        *limits
	process       uint64 // for which it is made
	inode, device string
	descriptors   int           // still to be gone through
	began, ends   time.Duration // of this thread's processor time
	givenUp       bool          // before it has seen everything
}

// over reports whether the scan has come to its end, whatever it has seen.
func (sc *scan) over() bool { return sc.descriptors <= 0 || sc.limits.processorTime() > sc.ends }

// ancestryHasOpen is Scanner.AncestryHasOpen.
func (sc *scan) ancestryHasOpen(thread uint64) Answer {
	if open := sc.hasOpen(thread, sc.process); open != No {
		return open
	}
	pid := thread
	for range maxGenerations {
		status, err := os.ReadFile(procDir(pid) + "/status")
		if err != nil {
			return No
		}
		pid, err = strconv.ParseUint(field(status, "PPid"), 10, 32)
		if err != nil || pid <= 1 {
			return No
		}
		switch open := sc.hasOpen(pid, pid); {
		case open == Yes:
			return Yes
		case sc.givenUp:
			return Unknown
		}
	}
	return Unknown
}

// hasOpen looks through the descriptors of a thread of a process in /proc, unless that
// process must be skipped.
func (sc *scan) hasOpen(thread, process uint64) Answer {
	if sc.limits.rests(process) {
		sc.givenUp = true
		return Unknown
	}
	began, left := sc.limits.processorTime(), sc.descriptors
	open := sc.search(procDir(thread))
	if sc.over() { // be it with the last descriptor
		taken := sc.limits.processorTime() - began
		if 2*taken >= sc.ends-sc.began || 2*(left-sc.descriptors) >= maxDescriptors { // not for the time that others have taken
			sc.limits.rest(process, taken)
		}
	}
	return open
}

// search is hasOpen of the process that a directory of /proc is about.
func (sc *scan) search(dir string) Answer {
	const batch = 64
	list, err := os.Open(dir + "/fdinfo")
	if err != nil {
		return Unknown
	}
	defer list.Close()
	for {
		names, err := list.Readdirnames(batch)
		switch {
		case err == io.EOF:
			return No
		case err != nil:
			return Unknown
		}
		for _, name := range names {
			if sc.over() {
				sc.givenUp = true
				return Unknown
			}
			sc.descriptors--
			if sc.isWriter(dir, name) {
				return Yes
			}
		}
	}
}

// isWriter reports whether a descriptor of the process that a directory of /proc is
// about is of the file, and can write. The mode of the link in "fd" tells what can
// write, the first lines in "fdinfo" (proc_pid_fdinfo(5)) the file; inode numbers of
// "ino" are there since Linux 5.14. For "fdinfo" the kernel makes up all lines whatever
// is read of them, which for inotify, whose descriptors do not write, are many.
func (sc *scan) isWriter(dir, name string) bool {
	var link unix.Stat_t
	if err := unix.Lstat(dir+"/fd/"+name, &link); err == nil && link.Mode&0o200 == 0 {
		return false
	}
	info, err := sc.limits.read(dir + "/fdinfo/" + name)
	if err != nil || field(info, "ino") != sc.inode {
		return false
	}
	flags, _ := strconv.ParseUint(field(info, "flags"), 8, 64)
	return flags&syscall.O_ACCMODE != syscall.O_RDONLY && sc.device != "" && deviceOf(dir, field(info, "mnt_id")) == sc.device
}
