package fusefs

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// answer is to a question about a process, which may be in another namespace, or be
// hidden by the way that /proc is mounted. Unknown is not "no".
type answer int

const (
	no answer = iota
	yes
	unknown
)

// seesProcesses reports whether /proc is of the process namespace of the daemon, whose
// numbers the kernel's requests have.
func seesProcesses() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
}

// A process may be closing a file of the mount because it executes a program, and waits
// for the answer. What the kernel tells of it only after that must not be asked for: the
// targets of the links in its "fd", and its "stat" (exec_update_lock; seen on Linux 6.18).

// hasOpen says whether the process of a thread has the file with that inode number of
// this mount open for writing.
func (fs *fileSystem) hasOpen(thread uint32, inode uint64) answer {
	return fs.withLook(uint64(thread), inode, func(l *look) answer { return l.hasOpen(uint64(thread), l.process) })
}

// writtenOn says whether the process of a thread, or one that it descends from, has
// the file with that inode number of this mount open for writing. Of these others it
// sees as many as it can: one of another user, or outside of a container, has no
// business with the file.
func (fs *fileSystem) writtenOn(thread uint32, inode uint64) answer {
	return fs.withLook(uint64(thread), inode, func(l *look) answer { return l.writtenOn(uint64(thread)) })
}

func (l *look) writtenOn(thread uint64) answer {
	if open := l.hasOpen(thread, l.process); open != no {
		return open
	}
	pid := thread
	for range maxGenerations {
		status, err := os.ReadFile(procDir(pid) + "/status")
		if err != nil {
			return no
		}
		pid, err = strconv.ParseUint(field(status, "PPid"), 10, 32)
		if err != nil || pid <= 1 {
			return no
		}
		switch open := l.hasOpen(pid, pid); {
		case open == yes:
			return yes
		case l.givenUp:
			return unknown
		}
	}
	return unknown
}

func procDir(pid uint64) string { return "/proc/" + strconv.FormatUint(pid, 10) }

// hasOpen looks through what /proc says of the descriptors of a thread of a process,
// unless that process is to be passed over.
func (l *look) hasOpen(thread, process uint64) answer {
	if l.looks.rests(process) {
		l.givenUp = true
		return unknown
	}
	began, left := l.looks.processorTime(), l.descriptors
	open := l.scan(procDir(thread))
	if l.over() { // be it with the last descriptor
		taken := l.looks.processorTime() - began
		if 2*taken >= l.ends-l.began || 2*(left-l.descriptors) >= maxDescriptors { // not for what others have taken
			l.looks.rest(process, taken)
		}
	}
	return open
}

// scan is hasOpen of the process that a directory of /proc is about.
func (l *look) scan(dir string) answer {
	const batch = 64
	list, err := os.Open(dir + "/fdinfo")
	if err != nil {
		return unknown
	}
	defer list.Close()
	for {
		names, err := list.Readdirnames(batch)
		switch {
		case err == io.EOF:
			return no
		case err != nil:
			return unknown
		}
		for _, name := range names {
			if l.over() {
				l.givenUp = true
				return unknown
			}
			l.descriptors--
			if l.isWriter(dir, name) {
				return yes
			}
		}
	}
}

// isWriter reports whether a descriptor of the process that a directory of /proc is
// about is of the file, and can write. The mode of the link in "fd" tells what can
// write, the first lines in "fdinfo" (proc_pid_fdinfo(5)) the file; inode numbers of
// "ino" are there since Linux 5.14. For "fdinfo" the kernel makes up all lines whatever
// is read of them, which for inotify, whose descriptors do not write, are many.
func (l *look) isWriter(dir, name string) bool {
	var link unix.Stat_t
	if err := unix.Lstat(dir+"/fd/"+name, &link); err == nil && link.Mode&0o200 == 0 {
		return false
	}
	info, err := l.looks.read(dir + "/fdinfo/" + name)
	if err != nil || field(info, "ino") != l.inode {
		return false
	}
	flags, _ := strconv.ParseUint(field(info, "flags"), 8, 64)
	return flags&syscall.O_ACCMODE != syscall.O_RDONLY && deviceOf(dir, field(info, "mnt_id")) == l.device
}

// readStart reads the first lines of a file in /proc.
func readStart(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := make([]byte, 256)
	n, err := f.Read(text)
	return text[:max(0, n)], err
}

// field returns the value of a line "name:\tvalue", or "".
func field(text []byte, name string) string {
	_, after, found := strings.Cut("\n"+string(text), "\n"+name+":\t")
	if !found {
		return ""
	}
	value, _, _ := strings.Cut(after, "\n")
	return value
}

// deviceOf returns the device, "major:minor", of a mount that a process sees,
// as proc_pid_mountinfo(5) has it, or "".
func deviceOf(dir, mountID string) string {
	f, err := os.Open(dir + "/mountinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxMountinfo))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == mountID {
			return f[2]
		}
	}
	return ""
}
