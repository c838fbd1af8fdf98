package fusefs

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// writtenOn reports whether the process of a thread, or one that it descends
// from, has the file with that inode number of this mount open for writing, as
// far as the daemon may see that.
func (fs *fileSystem) writtenOn(pid uint32, inode uint64) bool {
	const generations = 8
	fs.mu.RLock()
	device := fs.device
	fs.mu.RUnlock()
	for range generations {
		if pid <= 1 {
			return false
		}
		dir := "/proc/" + strconv.FormatUint(uint64(pid), 10)
		if hasOpen(dir, device, inode) {
			return true
		}
		status, err := os.ReadFile(dir + "/status")
		if err != nil {
			return false
		}
		parent, _ := strconv.ParseUint(field(status, "PPid"), 10, 32)
		pid = uint32(parent)
	}
	return false
}

// hasOpen looks through what proc_pid_fdinfo(5) says of a process. Inode
// numbers of "ino" are there since Linux 5.14.
func hasOpen(dir, device string, inode uint64) bool {
	entries, err := os.ReadDir(dir + "/fdinfo")
	if err != nil {
		return false
	}
	want := strconv.FormatUint(inode, 10)
	for _, e := range entries {
		info, err := os.ReadFile(dir + "/fdinfo/" + e.Name())
		if err != nil || field(info, "ino") != want {
			continue
		}
		flags, _ := strconv.ParseUint(field(info, "flags"), 8, 64)
		if flags&syscall.O_ACCMODE != syscall.O_RDONLY && deviceOf(dir, field(info, "mnt_id")) == device {
			return true
		}
	}
	return false
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
