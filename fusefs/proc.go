package fusefs

import (
	"os"
	"strconv"
	"strings"
	"syscall"
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

// writtenOn says whether the process of a thread, or one that it descends from, has
// the file with that inode number of this mount open for writing. Of these others it
// sees as many as it can: one of another user, or outside of a container, has no
// business with the file.
func (fs *fileSystem) writtenOn(thread uint32, inode uint64) answer {
	pid := uint64(thread)
	if open := fs.hasOpen(pid, inode); open != no {
		return open
	}
	for {
		status, err := os.ReadFile(procDir(pid) + "/status")
		if err != nil {
			return no
		}
		pid, err = strconv.ParseUint(field(status, "PPid"), 10, 32)
		if err != nil || pid <= 1 {
			return no
		}
		if fs.hasOpen(pid, inode) == yes {
			return yes
		}
	}
}

func procDir(pid uint64) string { return "/proc/" + strconv.FormatUint(pid, 10) }

// hasOpen looks through what proc_pid_fdinfo(5) says of a process. Inode
// numbers of "ino" are there since Linux 5.14.
func (fs *fileSystem) hasOpen(pid, inode uint64) answer {
	if pid == 0 || fs.blind {
		return unknown
	}
	fs.mu.RLock()
	device := fs.device
	fs.mu.RUnlock()
	dir := procDir(pid)
	entries, err := os.ReadDir(dir + "/fdinfo")
	if err != nil {
		return unknown
	}
	want := strconv.FormatUint(inode, 10)
	for _, e := range entries {
		info, err := os.ReadFile(dir + "/fdinfo/" + e.Name())
		if err != nil || field(info, "ino") != want {
			continue
		}
		flags, _ := strconv.ParseUint(field(info, "flags"), 8, 64)
		if flags&syscall.O_ACCMODE != syscall.O_RDONLY && deviceOf(dir, field(info, "mnt_id")) == device {
			return yes
		}
	}
	return no
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
	data, err := os.ReadFile(dir + "/mountinfo")
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
