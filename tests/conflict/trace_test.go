package conflict

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"mneme/tests/harness"
)

// A tracer is a child process that runs scripts in a mount. It holds their
// processes with ptrace at the system call that a test names, so that the test
// can do something at that very moment.

// point is where a script is held: at the first call of its kind that concerns
// the file.
type point string

const (
	atStart  point = "start"  // before the script runs
	searched point = "search" // likewise, and the tracer then reads the file
	atOpened point = "opened" // when it has been opened for writing
	atClose  point = "close"  // about to be synced or closed after it has been written
	atName   point = "name"   // about to be renamed, replaced or removed
)

// traceCall has a tracer run a bash script in a new directory of the mount.
type traceCall struct {
	Script string
	Dir    string
	File   string // the one in it that points are about
	Text   []byte // what it holds at first
	Point  point
	Hear   int64 // before the script runs: the size that the mount must show before the script runs
}

// traceReply is what came of it. Reached is said first, where the point is
// reached; the script then goes on with the next line that the tracer reads.
type traceReply struct {
	Reached bool
	Code    int
	Output  string // standard output and error
	Said    string // standard error
	Kept    []string
}

// traceChild does what it reads from standard input, in the mount of a store.
func traceChild(args []string) error {
	runtime.LockOSThread() // the thread that traces
	calls, replies := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	seen := map[string]bool{}
	for {
		var c traceCall
		if err := calls.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		dir := filepath.Join(args[0], c.Dir)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, c.File), c.Text, 0o644); err != nil {
			return err
		}
		var resume error
		reached := func() {
			if resume = replies.Encode(traceReply{Reached: true}); resume == nil {
				resume = calls.Decode(&struct{}{})
			}
		}
		r, err := runTraced(c, dir, reached)
		if err = errors.Join(err, resume); err != nil {
			return fmt.Errorf("%s: %w", c.Dir, err)
		}
		if r.Kept, err = newlyKept(args[0], "/"+c.Dir+"/"+c.File, seen); err != nil {
			return err
		}
		if err := replies.Encode(r); err != nil {
			return err
		}
	}
}

// newlyKept returns what conflicts of a path have kept that have not been seen.
func newlyKept(root, path string, seen map[string]bool) ([]string, error) {
	var texts []string
	conflicts := filepath.Join(root, ".mneme", "conflicts")
	entries, err := os.ReadDir(conflicts)
	for _, entry := range entries {
		if seen[entry.Name()] {
			continue
		}
		seen[entry.Name()] = true
		var about struct{ Path string }
		data, err := os.ReadFile(filepath.Join(conflicts, entry.Name(), "about"))
		if err == nil {
			err = json.Unmarshal(data, &about)
		}
		if err != nil {
			return nil, err
		}
		if about.Path == path {
			yours, _ := os.ReadFile(filepath.Join(conflicts, entry.Name(), "yours"))
			texts = append(texts, string(yours))
		}
	}
	return texts, err
}

// runTraced runs the script to the end of all its processes.
func runTraced(c traceCall, dir string, reached func()) (traceReply, error) {
	stdout, err := os.CreateTemp("", "stdout-")
	if err != nil {
		return traceReply{}, err
	}
	defer stdout.Close()
	stderr, err := os.CreateTemp("", "stderr-")
	if err != nil {
		return traceReply{}, err
	}
	defer stderr.Close()
	cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", c.Script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, stdout, stderr
	// Node would write through io_uring, which is no system call of its own.
	cmd.Env = slices.DeleteFunc(append(os.Environ(), "UV_USE_IO_URING=0"), func(v string) bool { return strings.HasPrefix(v, harness.ChildVariable) })
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if c.Point == atStart || c.Point == searched {
		reached()
		if err := hear(filepath.Join(dir, c.File), c.Hear); err != nil {
			return traceReply{}, err
		}
	}
	if c.Point == searched {
		if _, err := os.ReadFile(filepath.Join(dir, c.File)); err != nil {
			return traceReply{}, err
		}
	}
	if err := cmd.Start(); err != nil {
		return traceReply{}, err
	}
	t := &tracing{file: filepath.Join(dir, c.File), point: c.Point, reached: reached, calls: map[int]call6{}}
	if err := t.run(cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		return traceReply{}, err
	}
	_ = cmd.Process.Release()
	out, _ := os.ReadFile(stdout.Name())
	said, _ := os.ReadFile(stderr.Name())
	return traceReply{Code: t.code, Output: string(out) + string(said), Said: string(said)}, nil
}

// hear waits until a file is seen to have that size. It makes another one, which makes the mount
// ask for new commits.
func hear(path string, size int64) error {
	if size == 0 {
		return nil
	}
	if err := os.WriteFile(path+"-heard", nil, 0o644); err != nil {
		return err
	}
	for deadline := time.Now().Add(harness.ScriptPatience); ; time.Sleep(time.Millisecond) {
		info, err := os.Stat(path)
		if err == nil && info.Size() == size {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not seen to have %d bytes: %v, %v", path, size, info, err)
		}
	}
}

// tracing is a script that is traced, with everything it starts.
type tracing struct {
	file    string
	point   point
	reached func() // nil once it has been
	written bool   // the file, since it was opened
	code    int
	calls   map[int]call6 // under way, by thread; the zero value is none
}

// call6 is a system call that was entered.
type call6 struct {
	name string
	args [6]uint64
}

func (t *tracing) run(root int) error {
	if t.point == atStart || t.point == searched {
		t.reached = nil
	}
	for begun := false; ; {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil:
			return err
		case ws.Exited() || ws.Signaled():
			delete(t.calls, pid)
			if pid == root {
				t.code = ws.ExitStatus() // -1 when it was killed
			}
			continue
		case !ws.Stopped():
			continue
		}
		deliver := 0
		_, known := t.calls[pid]
		switch sig := ws.StopSignal(); {
		case sig == unix.SIGTRAP|0x80:
			t.stopped(pid)
		case sig == unix.SIGTRAP && !begun:
			begun = true
			t.calls[pid] = call6{}
			err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACEFORK|
				unix.PTRACE_O_TRACEVFORK|unix.PTRACE_O_TRACEEXEC|unix.PTRACE_O_EXITKILL)
			if err != nil {
				return err
			}
		case sig == unix.SIGTRAP && ws.TrapCause() > 0: // clone, exec
		case sig == unix.SIGSTOP && !known: // how a new one begins
			t.calls[pid] = call6{}
		default:
			deliver = int(sig)
		}
		resume := unix.PtraceSyscall
		if t.reached == nil {
			resume = unix.PtraceCont // faster
		}
		if err := resume(pid, deliver); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
}

// callNames are the calls that points are made of.
var callNames = map[uint64]string{
	unix.SYS_OPENAT: "open", unix.SYS_OPENAT2: "open", unix.SYS_CLOSE: "close", unix.SYS_DUP3: "dup2", unix.SYS_EXIT_GROUP: "exit",
	unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "write", unix.SYS_WRITEV: "write", unix.SYS_PWRITEV: "write", unix.SYS_PWRITEV2: "write",
	unix.SYS_FTRUNCATE: "write", unix.SYS_SENDFILE: "write", unix.SYS_COPY_FILE_RANGE: "copy", unix.SYS_SPLICE: "copy", unix.SYS_MMAP: "map",
	unix.SYS_FSYNC: "close", unix.SYS_FDATASYNC: "close", unix.SYS_MSYNC: "msync",
	unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat", unix.SYS_UNLINKAT: "unlinkat",
}

// oldCallNames are the calls that x86-64 has besides.
var oldCallNames = map[uint64]string{2: "open", 85: "open", 33: "dup2", 82: "rename", 87: "unlink"}

// syscallInfo is struct ptrace_syscall_info.
type syscallInfo struct {
	op                  uint8
	_                   [3]uint8
	arch                uint32
	instruction, stacks uint64
	number              uint64 // at an exit: what is returned
	args                [6]uint64
	_                   uint64
}

func (t *tracing) stopped(pid int) {
	var info syscallInfo
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(pid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 || t.reached == nil {
		return
	}
	switch info.op {
	case unix.PTRACE_SYSCALL_INFO_ENTRY:
		name := callNames[info.number]
		if old := oldCallNames[info.number]; info.arch == unix.AUDIT_ARCH_X86_64 && old != "" {
			name = old
		}
		c := call6{name, info.args}
		t.calls[pid] = c
		if t.enters(pid, c) {
			t.reach()
		}
	case unix.PTRACE_SYSCALL_INFO_EXIT:
		c := t.calls[pid]
		t.calls[pid] = call6{}
		if t.point == atOpened && c.name == "open" && int64(info.number) >= 0 && t.writes(pid, info.number) {
			t.reach()
		}
	}
}

func (t *tracing) reach() {
	reached := t.reached
	t.reached = nil
	reached()
}

// enters reports whether a call is the point.
func (t *tracing) enters(pid int, c call6) bool {
	switch t.point {
	case atClose:
		switch c.name {
		case "write":
			t.written = t.written || t.writes(pid, c.args[0])
		case "copy":
			t.written = t.written || t.writes(pid, c.args[2])
		case "map":
			t.written = t.written || t.writes(pid, c.args[4])
		case "msync":
			return t.written
		case "close":
			return t.written && t.writes(pid, c.args[0])
		case "dup2":
			return t.written && t.writes(pid, c.args[1])
		case "exit":
			fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
			return t.written && slices.ContainsFunc(fds, func(fd os.DirEntry) bool {
				var n uint64
				_, err := fmt.Sscan(fd.Name(), &n)
				return err == nil && t.writes(pid, n)
			})
		}
	case atName:
		const cwd = 1<<64 - 100 // AT_FDCWD
		a := c.args
		switch c.name {
		case "rename":
			return t.names(pid, cwd, a[0]) || t.names(pid, cwd, a[1])
		case "renameat":
			return t.names(pid, a[0], a[1]) || t.names(pid, a[2], a[3])
		case "unlink":
			return t.names(pid, cwd, a[0])
		case "unlinkat":
			return t.names(pid, a[0], a[1])
		}
	}
	return false
}

// writes reports whether a descriptor is the file's, and may write it.
func (t *tracing) writes(pid int, fd uint64) bool {
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, int32(fd)))
	if err != nil || link != t.file {
		return false
	}
	info, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, int32(fd)))
	_, after, _ := strings.Cut(string(info), "flags:")
	var flags int
	_, err = fmt.Sscanf(strings.TrimSpace(after), "%o", &flags)
	return err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY
}

// names reports whether a path in a process's memory is the file's.
func (t *tracing) names(pid int, dirfd, address uint64) bool {
	var text []byte
	for word := make([]byte, 8); len(text) < 4096; address += 8 {
		if n, err := unix.PtracePeekData(pid, uintptr(address), word); err != nil || n == 0 {
			return false
		}
		text = append(text, word...)
		if slices.Contains(word, 0) {
			break
		}
	}
	path, _, _ := strings.Cut(string(text), "\x00")
	if !filepath.IsAbs(path) {
		base := fmt.Sprintf("/proc/%d/cwd", pid)
		if fd := int32(dirfd); fd != unix.AT_FDCWD {
			base = fmt.Sprintf("/proc/%d/fd/%d", pid, fd)
		}
		dir, err := os.Readlink(base)
		if err != nil {
			return false
		}
		path = filepath.Join(dir, path)
	}
	return filepath.Clean(path) == t.file
}

// tracer is the test's end of one.
type tracer struct{ *harness.Dialogue[traceReply] }

// startTracer starts a tracer in the first store of the mount.
func startTracer(t testing.TB, m *harness.Mount) *tracer {
	t.Helper()
	return &tracer{harness.Talk[traceReply](t, m, "trace")}
}

// run has a script run, calls meanwhile when it is at its point, and returns
// what came of it, and whether the point was reached.
func (r *tracer) run(t testing.TB, c traceCall, meanwhile func()) (reply traceReply, reached bool) {
	t.Helper()
	if err := r.Calls.Encode(c); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case reply, ok := <-r.Replies:
			if !ok {
				t.Fatalf("%s: the tracer has died: %s", c.Script, r.Child.Stderr)
			}
			if !reply.Reached {
				return reply, reached
			}
			reached = true
			meanwhile()
			if err := r.Calls.Encode(struct{}{}); err != nil {
				t.Fatal(err)
			}
		case <-time.After(harness.ScriptPatience):
			r.Child.Kill(t)
			t.Fatalf("%s: not done after %v", c.Script, harness.ScriptPatience)
		}
	}
}
