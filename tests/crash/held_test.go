package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mneme/tests/harness"
)

// holdsDirectory is a program that reads a directory into memory which is not there, so that the
// kernel holds the directory's lock until a line comes: as a file of another FUSE that is mapped can.
const holdsDirectory = `
import ctypes, fcntl, mmap, os, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
getdents64, userfaultfd = (217, 323) if os.uname().machine == "x86_64" else (61, 282)
faults = libc.syscall(userfaultfd, os.O_CLOEXEC)
if faults < 0: sys.exit("userfaultfd: " + os.strerror(ctypes.get_errno()))
fcntl.ioctl(faults, 0xC018AA3F, bytearray(struct.pack("QQQ", 0xAA, 0, 0)))             # UFFDIO_API
pages = mmap.mmap(-1, mmap.PAGESIZE)
at = ctypes.addressof(ctypes.c_char.from_buffer(pages))
fcntl.ioctl(faults, 0xC020AA00, bytearray(struct.pack("QQQQ", at, mmap.PAGESIZE, 1, 0))) # UFFDIO_REGISTER
directory = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
reads = threading.Thread(target=lambda: libc.syscall(getdents64, directory, ctypes.c_void_p(at), mmap.PAGESIZE))
reads.start()
os.read(faults, 32)
print("held", flush=True)
sys.stdin.readline()
fcntl.ioctl(faults, 0xC020AA04, bytearray(struct.pack("QQQq", at, mmap.PAGESIZE, 0, 0))) # UFFDIO_ZEROPAGE
reads.join()
`

// TestHeldDirectory: while a program holds a directory of a mount, other sessions' changes show
// elsewhere in it, one thread waits, and .mneme/status says why; then they show there, too. A daemon
// that is killed meanwhile ends.
func TestHeldDirectory(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m, other := e.Mount(t, "notes"), e.Mount(t, "notes")
	m.Sh(t, "mkdir d elsewhere; echo 0 > elsewhere/f; cat elsewhere/f")
	for i, killed := range []bool{false, true} {
		m.Sh(t, fmt.Sprintf("for i in $(seq 20); do echo > d/%d-$i; done; cat d/*", i))
		in, out, wait := copied(t, m, holdsDirectory, m.Dir+"/d")
		line(t, out)
		other.Sh(t, fmt.Sprintf("rm d/%d-*; echo changed %[1]d > elsewhere/f; echo > d/new", i))
		m.Eventually(t, fmt.Sprintf("grep -qx 'changed %d' elsewhere/f", i))
		m.Eventually(t, "grep -q 'a program holds \"/d\" for' .mneme/status")
		if n := waiting(t, m.PID); n != 1 {
			t.Errorf("%d threads wait for the directory, want 1", n)
		}
		if killed {
			_ = syscall.Kill(m.PID, syscall.SIGKILL)
			if m.Over = true; !m.Wait(harness.MountPatience) {
				t.Error("the process that serves the mount has not ended")
			}
		}
		if _, err := in.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		if err := wait(); err != nil {
			t.Error(err)
		}
		if !killed {
			m.Eventually(t, "[ \"$(ls d)\" = new ]")
			m.Eventually(t, "! grep 'a program holds' .mneme/status")
		}
	}
}

// waiting is how many threads of the process that gives a mount's notices wait in the kernel.
func waiting(t *testing.T, daemon int) (n int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		text, _ := os.ReadFile(name)
		_, after, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[0] == "D" && fields[1] == fmt.Sprint(daemon) {
			n++
		}
	}
	return n
}
