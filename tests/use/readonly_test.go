package use

import (
	"os/exec"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// attempts tries every way there is of changing something in the directory
// that is its argument, which holds f and d/g, and prints how each ended.
const attempts = `
import ctypes, errno, mmap, os, socket, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    if getattr(libc, name)(*args) != 0: raise OSError(ctypes.get_errno(), name)
os.chdir(sys.argv[1])
other = sys.argv[2]
def opened(flags, path="f"):
    def way():
        fd = os.open(path, flags, 0o644)
        try:
            if flags & os.O_ACCMODE: os.write(fd, b"x")  # where opening is not refused, writing is
        finally: os.close(fd)
    return way
ways = {
  "open WRONLY": opened(os.O_WRONLY), "open RDWR": opened(os.O_RDWR), "open APPEND": opened(os.O_WRONLY | os.O_APPEND),
  "open TRUNC": opened(os.O_WRONLY | os.O_TRUNC), "open RDONLY TRUNC": opened(os.O_RDONLY | os.O_TRUNC),
  "open CREAT WRONLY": opened(os.O_CREAT | os.O_WRONLY), "create": opened(os.O_CREAT | os.O_WRONLY, "new"),
  "create RDONLY": opened(os.O_CREAT | os.O_RDONLY, "new"), "create EXCL": opened(os.O_CREAT | os.O_EXCL | os.O_RDWR, "new"),
  "create below": opened(os.O_CREAT | os.O_WRONLY, "d/new"), "create scratch": opened(os.O_CREAT | os.O_WRONLY, ".f.swp"),
  "create temporary": opened(os.O_CREAT | os.O_WRONLY, "f.tmp"),
  "mkdir": lambda: os.mkdir("new"), "mkdir below": lambda: os.mkdir("d/new"), "rmdir": lambda: os.rmdir("d"),
  "unlink": lambda: os.unlink("f"), "unlink below": lambda: os.unlink("d/g"),
  "rename": lambda: os.rename("f", "new"), "rename over": lambda: os.rename("f", "d/g"), "rename directory": lambda: os.rename("d", "new"),
  "rename to scratch": lambda: os.rename("f", "f~"), "rename in": lambda: os.rename(other, "new"), "rename out": lambda: os.rename("f", other),
  "truncate": lambda: os.truncate("f", 1), "truncate to its size": lambda: os.truncate("f", os.stat("f").st_size), "truncate longer": lambda: os.truncate("f", 100),
  "chmod": lambda: os.chmod("f", 0o600), "chmod directory": lambda: os.chmod("d", 0o700), "chown": lambda: os.chown("f", 0, 0),
  "chown to others": lambda: os.chown("f", 1234, 1234), "utimens": lambda: os.utime("f"), "utimens directory": lambda: os.utime("d", (1, 1)),
  "setxattr": lambda: os.setxattr("f", "user.x", b"1"), "setxattr mneme": lambda: os.setxattr("f", "user.mneme.seq", b"1"),
  "setxattr trusted": lambda: os.setxattr("f", "trusted.x", b"1"), "setxattr directory": lambda: os.setxattr("d", "user.x", b"1"),
  "removexattr": lambda: os.removexattr("f", "user.mneme.seq"),
  "link": lambda: os.link("f", "new"), "symlink": lambda: os.symlink("f", "new"), "mkfifo": lambda: os.mkfifo("new"),
  "mknod": lambda: os.mknod("new", stat.S_IFCHR | 0o600, os.makedev(1, 3)), "mknod file": lambda: os.mknod("new", stat.S_IFREG | 0o600),
  "socket": lambda: socket.socket(socket.AF_UNIX).bind("new"), "tmpfile": opened(os.O_TMPFILE | os.O_RDWR, "."),
  "write status": opened(os.O_WRONLY, ".mneme/status"), "truncate errors": lambda: os.truncate(".mneme/errors", 0),
  "create in .mneme": opened(os.O_CREAT | os.O_WRONLY, ".mneme/new"), "unlink status": lambda: os.unlink(".mneme/status"),
  "mkdir in .mneme": lambda: os.mkdir(".mneme/new"), "rmdir .mneme": lambda: os.rmdir(".mneme"), "rename .mneme": lambda: os.rename(".mneme", "new"),
  "rename into .mneme": lambda: os.rename("f", ".mneme/f"), "chmod status": lambda: os.chmod(".mneme/status", 0o666),
  "link into .mneme": lambda: os.link("f", ".mneme/f"),
  "create beside the store": opened(os.O_CREAT | os.O_WRONLY, "../new"), "mkdir beside the store": lambda: os.mkdir("../new"),
  "rename the store": lambda: os.rename("../" + os.path.basename(os.getcwd()), "../new"), "chmod the store": lambda: os.chmod(".", 0o777),
  "chmod the root": lambda: os.chmod("..", 0o777),
  "write an open file": lambda: os.write(fd, b"x"), "fchmod": lambda: os.fchmod(fd, 0o600), "futimens": lambda: os.utime(fd),
  "ftruncate": lambda: os.ftruncate(fd, 0), "fallocate": lambda: call("fallocate", fd, 0, 0, 100),
  "mmap shared": lambda: mmap.mmap(fd, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE),
}
fd = os.open("f", os.O_RDONLY)
for name, way in ways.items():
    try: way(); got = "done"
    except OSError as e: got = errno.errorcode[e.errno]
    print(f"{name}: {got}")
os.lseek(fd, 0, 0)
print("content:", open("f").read().strip(), open("d/g").read().strip(), os.read(fd, 10).decode().strip(), sorted(os.listdir(".")))
`

// refusedElsewhere are the attempts that fail before read-only comes into it:
// the descriptor was opened for reading, or the kernel has no such thing here.
var refusedElsewhere = map[string]string{
	"write an open file": "EBADF", "ftruncate": "EINVAL", "fallocate": "EBADF", "mmap shared": "EACCES",
}

// refusedToOwner is refusedElsewhere for a user who owns the files and has no other rights: no
// user may write the files in .mneme, and some calls are root's.
func refusedToOwner(name string) string {
	switch {
	case strings.HasSuffix(name, "in .mneme"), strings.HasSuffix(name, "into .mneme"),
		name == "write status", name == "unlink status", name == "truncate errors":
		return "EACCES"
	case name == "setxattr trusted", name == "mknod", strings.HasPrefix(name, "chown"):
		return "EPERM"
	}
	return ""
}

// checkRefused runs the attempts in a directory, as root or as its owner, and
// checks that all of them ended in EROFS.
func checkRefused(t *testing.T, m *harness.Mount, dir, other string, owner bool) {
	t.Helper()
	python := "python3"
	if owner {
		python = "setpriv --reuid=65534 --regid=65534 --clear-groups python3"
	}
	out := m.ShIn(t, m.At, python+" - "+dir+" "+other+" <<'END'\n"+attempts+"\nEND\n")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if want := "content: f g f ['d', 'f']"; lines[len(lines)-1] != want {
		t.Errorf("afterwards there is %q, want %q", lines[len(lines)-1], want)
	}
	for _, line := range lines[:len(lines)-1] {
		name, got, _ := strings.Cut(line, ": ")
		want := "EROFS"
		if errno, ok := refusedElsewhere[name]; ok {
			want = errno
		} else if errno := refusedToOwner(name); owner && errno != "" {
			want = errno
		}
		if name == "tmpfile" && got == "ENOTSUP" {
			want = got
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if len(lines) < 60 {
		t.Errorf("only %d attempts were made", len(lines))
	}
}

// TestReadOnly holds that nothing a process in the mount does can change a
// store that is mounted read-only.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		args     []string
		archived bool
		owner    bool
	}{
		{name: "to the owner", args: []string{"docs:ro", "notes", "--owner=65534:65534"}, owner: true},
		{name: "beside a writable store", args: []string{"docs:ro", "notes"}},
		{name: "alone", args: []string{"docs:ro"}},
		{name: "flag", args: []string{"docs", "--read-only"}},
		{name: "flag for all", args: []string{"docs", "notes", "--read-only"}},
		{name: "archived", args: []string{"docs:ro", "notes"}, archived: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			harness.NeedTools(t, "python3")
			e := harness.NewEnv(t)
			e.Store("docs")
			e.Store("notes")
			e.MustIn(t, "f\n", "write", "docs:/f")
			e.MustIn(t, "g\n", "write", "docs:/d/g")
			e.MustIn(t, "x\n", "write", "notes:/other")
			if c.archived {
				e.Must(t, "store", "archive", "docs", "--yes")
			}
			before := e.Must(t, "log", "--json", "docs")
			m := e.Mount(t, c.args...)
			other := m.At + "/notes/other"
			if len(c.args) == 1 || c.name == "flag" {
				other = "d/g"
			}
			checkRefused(t, m, "docs", other, c.owner)
			if out, err := exec.Command("mount", "-i", "-o", "remount,rw", m.At).CombinedOutput(); err != nil {
				t.Errorf("remount: %v %s", err, out)
			}
			checkRefused(t, m, "docs", other, c.owner)
			if m.Try(t, `echo x > f`).Code == 0 {
				t.Error("the shell could write")
			}
			m.Stop(t)
			if after := e.Must(t, "log", "--json", "docs"); after != before {
				t.Errorf("the history was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// TestReadOnlyMapping changes a mapping in a mount of which root has made the kernel
// forget that it is read-only: once the kernel has tried to write that back, all
// read what is stored.
func TestReadOnlyMapping(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	e := harness.NewEnv(t)
	e.Store("docs")
	e.MustIn(t, "stored\n", "write", "docs:/f")
	m := e.Mount(t, "docs:ro")
	m.Sh(t, `cat f`)
	if out, err := exec.Command("mount", "-i", "-o", "remount,rw", m.At).CombinedOutput(); err != nil {
		t.Fatalf("remount: %v %s", err, out)
	}
	if got := m.Sh(t, harness.PyErr(`
import mmap, subprocess
def read(): return subprocess.run(["cat", "f"], capture_output=True).stdout
for way in ["msync", "close"]:
    fd = os.open("f", os.O_RDWR); m = mmap.mmap(fd, 7); m[0:6] = b"forged"
    if way == "msync": attempt(m.flush)
    else: attempt(os.close, fd)
    settled("f", "stored\n"); print(read(), m[0:7])
    m.close()
`)); got != "EROFS\nstored\nb'stored\\n' b'stored\\n'\nEIO\nstored\nb'stored\\n' b'stored\\n'\n" {
		t.Errorf("got %s", got)
	}
}

// TestReadOnlyFollows holds that a read-only mount shows what others write.
func TestReadOnlyFollows(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "docs:ro")
	m.Sh(t, `ls -la; test ! -e f; ! cat f 2>/dev/null`)
	e.MustIn(t, "one\n", "write", "docs:/f")
	sees(t, m, `test "$(cat f)" = one; test "$(ls)" = f`)
	e.MustIn(t, "other\n", "write", "docs:/f")
	sees(t, m, `test "$(cat f)" = other`)
	e.Must(t, "rm", "docs:/f")
	sees(t, m, `test ! -e f; test -z "$(ls)"`)
}

// TestControlFilesAreReadOnly holds that .mneme refuses changes in a store that
// can be written, is not listed, and can be read.
func TestControlFilesAreReadOnly(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	out := m.Sh(t, `echo x > f
		ls -A; grep -q 'access: read-write' .mneme/status; cat .mneme/errors; ls .mneme
		for c in 'echo x > .mneme/status' 'echo x > .mneme/new' 'rm .mneme/errors' 'mkdir .mneme/d' 'rmdir .mneme' 'mv .mneme d' 'mv f .mneme/f' \
			'mv .mneme/status f' 'truncate -s 0 .mneme/errors' 'chmod 777 .mneme' 'touch .mneme/status' 'mkdir .mneme' 'ln f .mneme/f'; do
			if bash -c "$c" 2> "$HOME/err"; then echo "$c: done"; fi
			grep -q -e 'Read-only' -e 'File exists' "$HOME/err" || { echo "$c:"; cat "$HOME/err"; }
		done; cat f`)
	if want := "f\nREADME\nat\nconflicts\nerrors\nevents\nnote\npack\nstatus\nversions\nx\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	e.CheckChanges(t, "notes", "", "created f")
}
