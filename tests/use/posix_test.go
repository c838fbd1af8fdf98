package use

import (
	"fmt"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// TestHandles holds how open files behave.
func TestHandles(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	runUseCases(t, []useCase{
		{name: "exclusive", script: harness.PyErr(`
fd = os.open("f", os.O_CREAT | os.O_EXCL | os.O_WRONLY); attempt(os.open, "f", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
os.write(fd, b"x"); os.close(fd); attempt(os.open, "f", os.O_CREAT | os.O_EXCL | os.O_RDONLY)
attempt(os.open, "g", os.O_WRONLY); attempt(os.open, "f", os.O_RDONLY | os.O_DIRECTORY)`), out: "EEXIST\nEEXIST\nENOENT\nENOTDIR\n", log: []string{"created f"}},
		{name: "append by several handles", script: harness.PyErr(`
a, b = (os.open("f", os.O_CREAT | os.O_WRONLY | os.O_APPEND) for _ in "ab")
for i in range(5): os.write(a, b"a%d\n" % i); os.write(b, b"b%d\n" % i)
os.close(a); os.close(b); print(open("f").read().split())`), out: "['a0', 'b0', 'a1', 'b1', 'a2', 'b2', 'a3', 'b3', 'a4', 'b4']\n", log: []string{"created f"}},
		{name: "two handles writing", script: harness.PyErr(`
a, b = (os.open("f", os.O_CREAT | os.O_RDWR) for _ in "ab")
os.pwrite(a, b"aaaa", 0); os.pwrite(b, b"bb", 2); print(os.pread(a, 9, 0), os.pread(b, 9, 0))
os.close(a); print(open("f").read()); os.pwrite(b, b"c", 4); os.close(b); print(open("f").read())`), out: "b'aabb' b'aabb'\naabb\naabbc\n", log: once},
		{name: "unlinked but open", script: harness.PyErr(`
write("f", b"hello"); fd = os.open("f", os.O_RDWR); ro = os.open("f", os.O_RDONLY); os.unlink("f")
print(os.path.exists("f"), os.fstat(fd).st_nlink, os.pread(fd, 9, 0), os.pread(ro, 9, 0))
os.pwrite(fd, b"J", 0); os.ftruncate(fd, 4); print(os.pread(fd, 9, 0), os.pread(ro, 9, 0), os.fstat(ro).st_size)
attempt(os.fsync, fd); write("f", b"new"); os.close(fd); os.close(ro); print(open("f").read())`),
			out: "False 0 b'hello' b'hello'\nb'Jell' b'Jell' 4\nok\nnew\n", log: []string{"created f", "deleted f", "created f"}},
		{name: "created and unlinked while open", script: harness.PyErr(`
fd = os.open("f", os.O_CREAT | os.O_RDWR); os.unlink("f"); os.write(fd, b"hello"); print(os.pread(fd, 9, 0)); attempt(os.fsync, fd); os.close(fd)
print(os.listdir("."))`), out: "b'hello'\nok\n[]\n"},
		{name: "rename over an open file", script: harness.PyErr(`
write("f", b"old"); fd = os.open("f", os.O_RDWR); write("f.tmp", b"new"); os.rename("f.tmp", "f")
print(os.read(fd, 9), open("f").read()); os.pwrite(fd, b"XXX", 0); os.close(fd); print(open("f").read())`), out: "b'old' new\nnew\n", log: once},
		{name: "rename of an open file", script: harness.PyErr(`
fd = os.open("f", os.O_CREAT | os.O_RDWR); os.write(fd, b"one"); os.rename("f", "g"); os.write(fd, b" two"); os.close(fd)
print(open("g").read(), os.listdir("."))`), out: "one two ['g']\n", log: []string{"created g", "modified g"}},
		{name: "rename of an open memory", script: harness.PyErr(`
write("f", b"one"); fd = os.open("f", os.O_RDWR | os.O_APPEND); os.rename("f", "g"); os.write(fd, b" two"); os.close(fd)
print(open("g").read(), os.listdir("."))`), out: "one two ['g']\n", log: []string{"created f", "renamed f > g", "modified g"}},
		{name: "renamed directory of an open file", script: harness.PyErr(`
os.mkdir("d"); fd = os.open("d/f", os.O_CREAT | os.O_RDWR); os.write(fd, b"one"); os.rename("d", "e"); os.write(fd, b" two"); os.close(fd)
print(open("e/f").read(), os.listdir("."))`), out: "one two ['e']\n", log: []string{"created e/f"}},
		{name: "fsync then more", script: harness.PyErr(`
f = open("f", "wb", buffering=0); f.write(b"a"); os.fsync(f.fileno()); f.write(b"b"); os.fdatasync(f.fileno()); f.write(b"c"); f.close(); print(open("f").read())`),
			out: "abc\n", log: []string{"created f", "modified f", "modified f"}},
		{name: "written back to what it was", script: harness.PyErr(`
write("f", b"abc"); fd = os.open("f", os.O_RDWR); os.pwrite(fd, b"X", 0); os.pwrite(fd, b"a", 0); os.close(fd); print(open("f").read())`), out: "abc\n", log: []string{"created f"}},
		{name: "dup", script: harness.PyErr(`
fd = os.open("f", os.O_CREAT | os.O_WRONLY); two = os.dup(fd); os.write(fd, b"a"); os.close(fd); os.write(two, b"b"); os.close(two); print(open("f").read())`), out: "ab\n", log: once},
		{name: "fork", script: harness.PyErr(`
fd = os.open("f", os.O_CREAT | os.O_WRONLY)
if os.fork() == 0: os.write(fd, b"child "); os._exit(0)
os.wait(); os.write(fd, b"parent"); os.close(fd); print(open("f").read())`), out: "child parent\n", log: once},
		{name: "holes", script: harness.PyErr(`
fd = os.open("f", os.O_CREAT | os.O_RDWR); os.lseek(fd, 10, 0); os.write(fd, b"x"); os.ftruncate(fd, 12); os.ftruncate(fd, 3); os.ftruncate(fd, 5); os.close(fd)
print(open("f", "rb").read()); attempt(os.lseek, os.open("f", os.O_RDONLY), -1, 0); print(os.lseek(os.open("f", os.O_RDONLY), 0, os.SEEK_HOLE))`),
			out: "b'\\x00\\x00\\x00\\x00\\x00'\nEINVAL\n5\n", log: []string{"created f"}},
		{name: "shrink and grow shows zeros", script: harness.PyErr(`
write("f", b"secret"); fd = os.open("f", os.O_RDWR); os.ftruncate(fd, 2); os.ftruncate(fd, 6); os.close(fd); print(open("f", "rb").read())`), out: "b'se\\x00\\x00\\x00\\x00'\n", log: once},
		{name: "copy_file_range and sendfile", script: harness.PyErr(`
write("f", b"hello world"); a = os.open("f", os.O_RDONLY); b = os.open("g", os.O_CREAT | os.O_RDWR)
n = os.copy_file_range(a, b, 5, 6, 0); os.sendfile(b, a, 0, 3); os.close(b); print(n, open("g").read())`), out: "5 helld\n", log: []string{"created f", "created g"}},
		{name: "read while written", script: harness.PyErr(`
write("f", b"old"); w = os.open("f", os.O_RDWR | os.O_TRUNC); os.write(w, b"newer"); print(open("f").read(), os.stat("f").st_size); os.close(w)`), out: "newer 5\n", log: once},
		{name: "O_DIRECT and O_SYNC", script: harness.PyErr(`
fd = os.open("f", os.O_CREAT | os.O_WRONLY | os.O_SYNC); os.write(fd, b"a"); os.close(fd)
try: fd = os.open("f", os.O_RDONLY | os.O_DIRECT); print(os.read(fd, 4096))
except OSError as e: print(e)`), out: "b'a'\n", log: []string{"created f"}},
		{name: "open and close", script: harness.PyErr(`
write("f", b"x")
for flags in [os.O_RDWR, os.O_WRONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREAT]: os.close(os.open("f", flags))
fd = os.open("f", os.O_RDWR); os.write(fd, b""); os.ftruncate(fd, 1); os.fsync(fd); os.close(fd); print(open("f").read())`), out: "x\n", log: []string{"created f"}},
		{name: "flock", script: `echo x > f; exec 3< f; flock 3; flock -n f true || echo locked; exec 3<&-; flock -n f echo free`, out: "locked\nfree\n", log: []string{"created f"}},
		{name: "fcntl locks", script: harness.PyErr(`
write("f", b"x"); a = open("f", "r+"); fcntl.lockf(a, fcntl.LOCK_EX)
if os.fork() == 0:
    b = open("f", "r+"); attempt(fcntl.lockf, b, fcntl.LOCK_EX | fcntl.LOCK_NB); sys.stdout.flush(); os._exit(0)
os.wait(); a.close(); b = open("f", "r+"); attempt(fcntl.lockf, b, fcntl.LOCK_EX | fcntl.LOCK_NB)`), out: "EAGAIN\nok\n", log: []string{"created f"}},
		{name: "mmap shared by two", script: harness.PyErr(`
import mmap
write("f", b"hello"); f = open("f", "r+b"); a = mmap.mmap(f.fileno(), 5); b = mmap.mmap(f.fileno(), 5); a[0:1] = b"J"; print(b[:])
a.flush(); os.fsync(f.fileno()); a.close(); b.close(); f.close(); print(open("f").read())`), out: "b'Jello'\nJello\n", log: once},
		{name: "mmap private", script: harness.PyErr(`
import mmap
write("f", b"hello"); f = open("f", "r+b"); a = mmap.mmap(f.fileno(), 5, flags=mmap.MAP_PRIVATE); a[0:1] = b"J"; a.close(); f.close(); print(open("f").read())`), out: "hello\n", log: []string{"created f"}},
		{name: "mmap of a big file at its end", script: harness.PyErr(`
import mmap
write("f", b"x" * 100001); f = open("f", "r+b"); a = mmap.mmap(f.fileno(), 0); a[100000:] = b"y"; a.flush(); os.fsync(f.fileno()); a.close(); f.close()
d = open("f").read(); print(len(d), d[-2:])`), out: "100001 xy\n", log: once},
	})
}

// TestDirectories holds how directories behave.
func TestDirectories(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	runUseCases(t, []useCase{
		{name: "errors", script: harness.PyErr(`
os.makedirs("d/e"); write("f", b"x"); write("d/g", b"y")
attempt(os.rmdir, "d"); attempt(os.rmdir, "f"); attempt(os.unlink, "d"); attempt(os.rmdir, "none"); attempt(os.unlink, "none"); attempt(os.mkdir, "d"); attempt(os.mkdir, "f")
attempt(os.open, "d", os.O_WRONLY); attempt(os.open, "f/x", os.O_CREAT | os.O_WRONLY); attempt(os.mkdir, "f/x"); attempt(os.mkdir, "none/x"); attempt(os.open, "none/x", os.O_CREAT | os.O_WRONLY)
attempt(os.rename, "d", "f"); attempt(os.rename, "f", "d"); attempt(os.rename, "f", "d/e"); attempt(os.rename, "none", "x"); attempt(os.rename, "f", "none/x")
attempt(os.rename, "d", "d/e/d"); attempt(os.rename, "d/e", "d"); attempt(os.truncate, "d", 0); attempt(os.readlink, "f"); attempt(os.rename, "f", "f")
os.mkdir("h"); attempt(os.rename, "h", "d"); attempt(os.rename, "d", "h"); print(sorted(os.listdir(".")))`),
			out: strings.ReplaceAll("ENOTEMPTY ENOTDIR EISDIR ENOENT ENOENT EEXIST EEXIST EISDIR ENOTDIR ENOTDIR ENOENT ENOENT ENOTDIR EISDIR EISDIR ENOENT ENOENT EINVAL ENOTEMPTY EISDIR EINVAL ok ENOTEMPTY ok", " ", "\n") + "\n['f', 'h']\n",
			log: []string{"created f", "created d/g", "renamed d/g > h/g"}},
		{name: "no replace", script: `echo a > a; echo b > b; mv -n a b; cat a b; mkdir d; mv -n a d/a; cat d/a`, out: "a\nb\na\n", log: []string{"created a", "created b", "renamed a > d/a"}},
		{name: "empty directories stay", script: `mkdir -p a/b; echo x > a/b/f; rm a/b/f; ls a; find . -type d | wc -l; rmdir a/b a; ls`, out: "b\n3\n", log: []string{"created a/b/f", "deleted a/b/f"}},
		{name: "moved out of a directory", script: `mkdir a; echo x > a/f; mv a/f f; ls; rmdir a; cat f`, out: "a\nf\nx\n", log: []string{"created a/f", "renamed a/f > f"}},
		{name: "deleting while listing", script: harness.PyErr(`
for i in range(200): write(f"f{i:03}", b"x")
seen = 0
for e in os.scandir("."): os.unlink(e.name); seen += 1
print(seen, len(os.listdir(".")))`), out: "200 0\n", log: numbered(200, "f")},
		{name: "rm -r of many", script: `mkdir d; seq 300 | (cd d; split -l 1 -a 3 -d - f); ls d | wc -l; rm -r d; ls`, out: "300\n", log: numbered(300, "d/f")},
		{name: "rewind and seek", script: harness.PyErr(`
for i in range(40): os.mkdir(f"d{i:02}")
libc = ctypes.CDLL(None); libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p; libc.telldir.restype = ctypes.c_long
for f in (libc.readdir, libc.telldir, libc.rewinddir): f.argtypes = [ctypes.c_void_p]
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
def entry(d):
    p = libc.readdir(d)
    return ctypes.string_at(p + 19).decode() if p else None
d = libc.opendir(b"."); all = []; at = {}
while True:
    pos = libc.telldir(d); n = entry(d)
    if n is None: break
    all.append(n); at[n] = pos
libc.seekdir(d, at["d20"]); print(len(all), entry(d))
os.rmdir("d05"); os.mkdir("new"); libc.rewinddir(d); again = []
while (n := entry(d)) is not None: again.append(n)
print(sorted(set(all) ^ set(again)))`), out: "42 d20\n['d05', 'new']\n"},
		{name: "inodes", script: harness.PyErr(`
write("f", b"x"); os.mkdir("d"); write("d/g", b"x")
for e in os.scandir("."): assert e.inode() == os.stat(e.name).st_ino, e
i = os.stat("f").st_ino; os.rename("f", "d/f"); assert os.stat("d/f").st_ino == i; assert len({os.stat(p).st_ino for p in [".", "d", "d/f", "d/g"]}) == 4
s = os.statvfs("."); print(s.f_namemax, s.f_bavail > 0)`), out: "255 True\n", log: []string{"created f", "created d/g", "renamed f > d/f"}},
		{name: "df", script: `df . > /dev/null; df -i . > /dev/null; stat -f -c %T . > /dev/null; echo ok`, out: "ok\n"},
		{name: "times", script: harness.PyErr(`
import time
now = time.time(); write("f", b"x"); assert abs(os.stat("f").st_mtime - now) < 5; os.utime("f", (1, 2)); s = os.stat("f"); print(int(s.st_atime), int(s.st_mtime))
write("f", b"y"); assert abs(os.stat("f").st_mtime - time.time()) < 5; m = os.stat(".").st_mtime_ns; time.sleep(.02); write("g", b"x"); assert os.stat(".").st_mtime_ns > m; m = os.stat(".").st_mtime_ns; time.sleep(.02); os.unlink("g"); assert os.stat(".").st_mtime_ns > m`),
			out: "1 2\n", log: []string{"created f", "modified f", "created g", "deleted g"}},
	}, "--max-memory-bytes", "200000")
}

// numbered is the history of n files that were made and deleted in order.
func numbered(n int, prefix string) (log []string) {
	for _, op := range []string{"created", "deleted"} {
		for i := range n {
			log = append(log, fmt.Sprintf("%s %s%03d", op, prefix, i))
		}
	}
	return log
}

// TestRemount holds what a new mount of a store shows: everything that was
// committed, as it was, and directories in which nothing is, which commands list, too.
func TestRemount(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes", "--mode=755")
	m.Sh(t, `mkdir -p d/e; echo x > f; echo yy > d/e/g; for i in $(seq 30); do echo $i > d/$i; done; sed -i s/x/xx/ f; mv d/e/g d/h; mkdir -p .git/refs empty/in; mkdir gone; rmdir gone`)
	// mtime is that of the write, later that of the version, which is a moment later.
	const stats = `find . -type d | sort; find . -type f -printf '%P %s %TY-%Tm-%Td %m %U %G %n\n' | sort; find . -type f | sort | xargs sha256sum`
	before := m.Sh(t, stats)
	m.Stop(t)
	m = e.Mount(t, "notes", "--mode=755")
	if after := m.Sh(t, stats); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if got, want := e.Must(t, "ls", "-r", "notes:/empty")+e.Must(t, "ls", "notes:/empty")+e.Must(t, "ls", "notes:/empty/in"), "in/\nin/\n"; got != want {
		t.Errorf("mneme ls shows %q, want %q", got, want)
	}
	e.Must(t, "mv", "notes:/empty", "notes:/other")
	if got := e.Must(t, "rm", "-r", "notes:/other"); !strings.HasPrefix(got, "0 memories removed from notes:/other") {
		t.Errorf("mneme rm says %q", got)
	}
	if r := e.Mneme("ls", "notes:/other"); r.Code != 3 {
		t.Errorf("mneme ls of what was removed: %v", r)
	}
	m.Eventually(t, `! test -e empty && ! test -e other`)
}

// TestScratch holds that editors' scratch files leave no versions and are gone
// from the directory with their mount, and that the memory that one was made of is still there.
func TestScratch(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, `echo a > a; mv a a~; test ! -e a; cat a~
		python3 -c 'import os; os.close(os.open("4913", os.O_CREAT | os.O_EXCL | os.O_WRONLY))'
		for n in .f.swp .f.swx f~ '#f#' '.#f' .goutputstream-X1 .~lock.f#; do echo scratch > "$n"; echo more >> "$n"; done; head -c 200000 /dev/zero > .big.swp; printf '\377' > .bin.swp
		test $(ls -A | wc -l) = 11`)
	other := e.Mount(t, "notes")
	if got := other.Sh(t, `ls -A; cat a`); got != "a\na\n" {
		t.Errorf("another mount sees %q", got)
	}
	m.Stop(t)
	m = e.Mount(t, "notes")
	if got := m.Sh(t, `ls -A; cat a`); got != "a\na\n" {
		t.Errorf("the next mount has %q", got)
	}
	e.CheckChanges(t, "notes", "", "created a")
}

// TestRemoveDirOfBackedUp removes directories out of which everything was renamed
// to scratch names: they are gone here, and come back with the next mount.
func TestRemoveDirOfBackedUp(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, `mkdir -p old/sub backup kept; echo f > old/f; echo g > old/sub/g; echo h > kept/h
		mv old/f backup/f~; mv old/sub/g backup/g~; test -z "$(ls -A old/sub)"
		rmdir old/sub; rm -rf old; test ! -e old; ! mkdir old/sub 2> /dev/null
		mv kept/h backup/h~; mkdir new; mv -T new kept; test -z "$(ls -A kept)"; cat backup/*~`)
	if got := e.Mount(t, "notes").Sh(t, `cat old/f old/sub/g; ls -A`); got != "f\ng\nbackup\nkept\nold\n" {
		t.Errorf("another mount sees %q", got)
	}
	m.Sh(t, `rm backup/f~; rm -r backup`)
	e.CheckChanges(t, "notes", "", "created old/f", "created old/sub/g", "created kept/h", "deleted kept/h", "deleted old/f", "deleted old/sub/g")
	m.Sh(t, `mkdir d; echo x > d/x; mv d/x x~; rmdir d`)
	m.Stop(t)
	if got := e.Mount(t, "notes").Sh(t, `ls -AR`); got != ".:\nd\nkept\n\n./d:\nx\n\n./kept:\n" {
		t.Errorf("the next mount has %q", got)
	}
}

// TestTemporaryNames holds that a file with a temporary name becomes a memory
// when it stays.
func TestTemporaryNames(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, `echo kept > x.tmp; echo gone > y.tmp; rm y.tmp; echo moved > z.tmp; mv z.tmp z; cat x.tmp`)
	m.Sh(t, `for i in $(seq 50); do if mneme cat notes:/x.tmp > /dev/null 2>&1; then exit 0; fi; sleep .1; done; exit 1`)
	e.CheckChanges(t, "notes", "", "created z", "created x.tmp")
	m.Sh(t, `echo last > w.tmp; echo more >> w.tmp`)
	m.Stop(t)
	e.CheckChanges(t, "notes", "", "created z", "created x.tmp", "created w.tmp")
	if got := e.Must(t, "cat", "notes:/w.tmp"); got != "last\nmore\n" {
		t.Errorf("w.tmp is %q", got)
	}
}

// TestUnmountSavesOpenFiles holds that what was written and not yet closed when
// the mount ends is saved.
func TestUnmountSavesOpenFiles(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	wait := m.Background(t, `exec 3> f; echo written >&3; echo ready > "$HOME/ready"; cd /; sleep 2; exec 3>&- || true`)
	sees(t, m, `test -s "$HOME/ready"`)
	m.Over = true
	r := e.Mneme("unmount", "--at", m.At, "--lazy")
	if r.Code != 0 {
		t.Errorf("unmount --lazy: %v", r)
	}
	wait()
	if !m.Wait(harness.MountPatience) {
		t.Errorf("the daemon outlives its last user")
	}
	if got := e.Must(t, "cat", "notes:/f"); !strings.Contains(got, "written") {
		t.Errorf("f is %q", got)
	}
}

// TestAppendingTogether holds that processes of one mount that append to one
// file lose nothing, and that every version holds all lines of the one before.
func TestAppendingTogether(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, `for p in 1 2 3 4; do ( for i in $(seq 25); do echo "$p $i" >> f; done ) & done; wait; test $(sort -u f | wc -l) = 100`)
	vs := e.CheckHistory(t, "notes:/f", m.Session, strings.TrimSpace("created "+strings.Repeat("modified ", len(e.Versions(t, "notes:/f"))-1)))
	for i, v := range vs {
		if i > 0 && v.Size <= vs[i-1].Size {
			t.Errorf("version %d has %d bytes after %d", i+1, v.Size, vs[i-1].Size)
		}
	}
	if got := e.Must(t, "cat", "notes:/f"); strings.Count(got, "\n") != 100 {
		t.Errorf("the head has %d lines", strings.Count(got, "\n"))
	}
}
