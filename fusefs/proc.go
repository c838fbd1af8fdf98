package fusefs

import (
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

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

// A question about processes is answered by looking through /proc, and a process can
// have as many descriptors, and make as many mounts, as it likes. So that no process
// takes the daemon's time from others, one look at a time is taken for each, and each is
// bounded. What is not found within these bounds is unknown.
//
// A process may be closing a file of the mount because it executes a program, and waits
// for the answer. What the kernel tells of it only after that must not be asked for: the
// links in its "fd", and its "stat" (exec_update_lock; seen on Linux 6.18).
const (
	maxDescriptors = 2048                  // that a look goes through, of all processes together
	maxGenerations = 64                    // of ancestors
	maxMountinfo   = 1 << 20               // bytes
	maxLook        = 50 * time.Millisecond // of processor time
)

// look is one look through /proc for a file of the mount.
type look struct {
	inode, device string
	descriptors   int           // still to be gone through
	ends          time.Duration // of this thread's processor time
}

// looks has the processes for which somebody looks through /proc.
type looks struct {
	mu sync.Mutex
	of map[string]*oneLook // by process
}

type oneLook struct {
	sync.Mutex
	users int
}

// begin waits until nobody else looks for the process of a thread. What it returns ends
// the look.
func (l *looks) begin(thread uint64) (end func()) {
	status, _ := os.ReadFile(procDir(thread) + "/status")
	process := field(status, "Tgid")
	l.mu.Lock()
	one := l.of[process]
	if one == nil {
		one = &oneLook{}
		l.of[process] = one
	}
	one.users++
	l.mu.Unlock()
	one.Lock()
	return func() {
		one.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.of, process)
		}
	}
}

// withLook takes a look, for a thread, at who has the file with that inode number of
// this mount open.
func (fs *fileSystem) withLook(thread, inode uint64, answer func(*look) answer) answer {
	if fs.blind || thread == 0 {
		return unknown
	}
	defer fs.looks.begin(thread)()
	runtime.LockOSThread() // whose time counts
	defer runtime.UnlockOSThread()
	fs.mu.RLock()
	device := fs.device
	fs.mu.RUnlock()
	return answer(&look{
		inode: strconv.FormatUint(inode, 10), device: device, descriptors: maxDescriptors, ends: processorTime() + maxLook,
	})
}

// processorTime is how long this thread has run.
func processorTime() time.Duration {
	var at unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at) // which every Linux has
	return time.Duration(at.Nano())
}

// hasOpen says whether the process of a thread has the file with that inode number of
// this mount open for writing.
func (fs *fileSystem) hasOpen(thread uint32, inode uint64) answer {
	return fs.withLook(uint64(thread), inode, func(l *look) answer { return l.hasOpen(uint64(thread)) })
}

// writtenOn says whether the process of a thread, or one that it descends from, has
// the file with that inode number of this mount open for writing. Of these others it
// sees as many as it can: one of another user, or outside of a container, has no
// business with the file.
func (fs *fileSystem) writtenOn(thread uint32, inode uint64) answer {
	return fs.withLook(uint64(thread), inode, func(l *look) answer { return l.writtenOn(uint64(thread)) })
}

func (l *look) writtenOn(pid uint64) answer {
	if open := l.hasOpen(pid); open != no {
		return open
	}
	for range maxGenerations {
		status, err := os.ReadFile(procDir(pid) + "/status")
		if err != nil {
			return no
		}
		pid, err = strconv.ParseUint(field(status, "PPid"), 10, 32)
		if err != nil || pid <= 1 {
			return no
		}
		switch open := l.hasOpen(pid); {
		case open == yes:
			return yes
		case l.over():
			return unknown
		}
	}
	return unknown
}

// over reports whether the look has come to an end before it has seen everything.
func (l *look) over() bool { return l.descriptors <= 0 || processorTime() > l.ends }

func procDir(pid uint64) string { return "/proc/" + strconv.FormatUint(pid, 10) }

// hasOpen looks through what proc_pid_fdinfo(5) says of a process. Inode
// numbers of "ino" are there since Linux 5.14.
func (l *look) hasOpen(pid uint64) answer {
	const batch = 64
	dir := procDir(pid)
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
// about is of the file, and can write.
func (l *look) isWriter(dir, name string) bool {
	info, err := os.ReadFile(dir + "/fdinfo/" + name)
	if err != nil || field(info, "ino") != l.inode {
		return false
	}
	flags, _ := strconv.ParseUint(field(info, "flags"), 8, 64)
	return flags&syscall.O_ACCMODE != syscall.O_RDONLY && deviceOf(dir, field(info, "mnt_id")) == l.device
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
