package openfiles

import (
	"io"
	"os"
	"strconv"
	"strings"
)

// A process may be closing a file of the mount because it executes a program, and waits for
// the answer. Some files of /proc about that process block until then, and must not be
// read: the targets of the links in its "fd", and its "stat" (exec_update_lock; seen on
// Linux 6.18).

// seesProcesses reports whether /proc is of the process namespace of the daemon, whose
// numbers the kernel's requests have.
func seesProcesses() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
}

func procDir(pid uint64) string { return "/proc/" + strconv.FormatUint(pid, 10) }

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
	const most = 1 << 20 // bytes: a process makes as many mounts as it likes
	f, err := os.Open(dir + "/mountinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most))
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
