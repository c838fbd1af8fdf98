package use

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/tests/harness"
)

// soon waits until a test of test(1) holds, a second at most: what a failed
// write leaves goes when the kernel lets go of the handle.
func soon(condition string) string {
	return `for i in $(seq 100); do test ` + condition + ` && break; sleep .01; done; test ` + condition
}

// TestTooBig holds that what exceeds the limit is refused by every route, and
// that the old content stays.
func TestTooBig(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	const (
		big   = `head -c 102401 /dev/zero | tr '\0' x > "$OUT/big"; `
		old   = `echo old > f; `
		after = `; cat f`
	)
	refused := func(name, script string) useCase {
		return useCase{name: name, script: big + old + script + after, out: "old\n", log: []string{"created f"}}
	}
	runUseCases(t, []useCase{
		{name: "the limit", script: `head -c 102400 /dev/zero | tr '\0' x > f; stat -c %s f; wc -c < f`, out: "102400\n102400\n", log: []string{"created f"}},
		{name: "the limit over", script: old + `head -c 102400 /dev/zero | tr '\0' x > f; wc -c < f`, out: "102400\n", log: once},
		{name: "the limit by appending", script: `head -c 102399 /dev/zero | tr '\0' x > f; echo >> f; wc -c < f; ! echo >> f 2> /dev/null; wc -c < f`, out: "102400\n102400\n", log: once},
		{name: "the limit by truncate", script: old + `truncate -s 102400 f; wc -c < f`, out: "102400\n", log: once},
		refused("shell", `! cat "$OUT/big" > f 2> "$OUT/err"; grep -q 'File too large' "$OUT/err"`),
		refused("cp", `! cp "$OUT/big" f 2> /dev/null`),
		refused("cp new", `! cp "$OUT/big" g 2> /dev/null; `+soon("! -e g")+`; ls | grep -v f || true`),
		refused("shell new", `! cat "$OUT/big" > g 2> /dev/null; `+soon("! -e g")+`; ls | grep -v f || true`),
		refused("dd", `! dd if="$OUT/big" of=f bs=64k status=none 2> /dev/null`),
		refused("dd in small blocks", `! dd if="$OUT/big" of=f bs=1000 status=none 2> /dev/null`),
		refused("dd notrunc", `! dd if="$OUT/big" of=f bs=64k conv=notrunc status=none 2> /dev/null`),
		refused("tee", `! tee f < "$OUT/big" > /dev/null 2> /dev/null`),
		refused("append", `! cat "$OUT/big" >> f 2> /dev/null`),
		refused("truncate -s", `! truncate -s 102401 f 2> /dev/null; ! truncate -s 1T f 2> /dev/null`),
		{name: "truncate -s new", script: `! truncate -s 102401 g 2> /dev/null; stat -c %s g`, out: "0\n", log: []string{"created g"}},
		refused("rsync", `! rsync "$OUT/big" f 2> /dev/null; ls -A | grep -v '^f$' || true`),
		refused("mv", `cp "$OUT/big" "$OUT/big2"; ! mv "$OUT/big2" g 2> /dev/null; cmp "$OUT/big" "$OUT/big2"; `+soon("! -e g")),
		refused("temporary and mv", `! cp "$OUT/big" f.tmp 2> /dev/null; rm -f f.tmp`),
		refused("sed -i", `! sed -i "s/old/$(cat "$OUT/big")/" f 2> /dev/null; rm -f sed*`),
		{name: "python", log: []string{"created f"}, out: strings.Repeat("EFBIG\n", 7) + "ok\nold\n", script: old + harness.PyErr(`
attempt(write, "f", b"x" * 102401)
attempt(write, "f", b"x" * 102401, "ab")
attempt(os.truncate, "f", 102401)
fd = os.open("f", os.O_RDWR)
attempt(os.pwrite, fd, b"x", 102400)
attempt(os.pwrite, fd, b"x", 0)
attempt(os.close, fd)
fd = os.open("f", os.O_RDWR)
attempt(os.ftruncate, fd, 1 << 40)
attempt(os.close, fd)`) + `cat f`},
		{name: "too big and then small", script: big + old + `! cat "$OUT/big" > f 2> /dev/null; echo new > f; cat f`, out: "new\n", log: once},
		{name: "explained for its target", script: big + old + `head -c 200000 /dev/zero | tr '\0' x > "$OUT/bigger"
			! rsync "$OUT/bigger" f 2> /dev/null; ! cp "$OUT/bigger" f.tmp 2> /dev/null; ! cp "$OUT/bigger" new.tmp 2> /dev/null; rm -f *.tmp
			grep -o 'explained_for_its_target/[a-z.]*": at least [0-9]* bytes, but a memory of this store holds at most 102400' ../.mneme/errors | sed 's/.*target//; s/ [0-9]* bytes/ N bytes/' | sort -u`,
			out: "/f\": at least N bytes, but a memory of this store holds at most 102400\n/new.tmp\": at least N bytes, but a memory of this store holds at most 102400\n", log: []string{"created f"}},
		{name: "explained", script: big + `! cp "$OUT/big" g 2> /dev/null; grep -c 'explained/g": at least [0-9]* bytes.*at most 102400' ../.mneme/errors | sed 's/[1-9].*/yes/'`, out: "yes\n"},
	})
}

// TestNotText holds that a text store refuses other bytes when they are closed,
// and keeps what was there.
func TestNotText(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	runUseCases(t, []useCase{
		{name: "latin 1", script: harness.PyErr(`
attempt(write, "f", b"caf\xe9\n")
attempt(write, "g", "café\n".encode())
attempt(write, "g", b"\xff\xfe")
attempt(write, "g", b"caf\xe9\n", "ab")
settled("g", "café\n"); print(sorted(os.listdir(".")))`), out: "EILSEQ\nok\nEILSEQ\nEILSEQ\ncafé\n['g']\n", log: []string{"created g"}},
		{name: "fsync", script: harness.PyErr(`
write("f", b"old")
fd = os.open("f", os.O_WRONLY | os.O_TRUNC); os.write(fd, b"\xff")
attempt(os.fsync, fd); os.pwrite(fd, b"new", 0)
attempt(os.fsync, fd); attempt(os.close, fd)
print(open("f").read())`), out: "EILSEQ\nok\nok\nnew\n", log: once},
		{name: "rename", script: harness.PyErr(`
write("f", b"old"); write("f~", b"\xff")
attempt(os.rename, "f~", "f")
print(open("f").read(), open("f~", "rb").read())`), out: "EILSEQ\nold b'\\xff'\n", log: []string{"created f"}, scratch: []string{"f~"}},
		{name: "cut in a character", script: harness.PyErr(`
write("f", "é".encode())
attempt(os.truncate, "f", 1)
print(open("f").read())`), out: "EILSEQ\né\n", log: []string{"created f"}},
		{name: "cut in a character while open", script: harness.PyErr(`
write("f", "é".encode()); fd = os.open("f", os.O_RDWR | os.O_APPEND)
attempt(os.truncate, "f", 1); print(open("f").read(), os.stat("f").st_size)
os.write(fd, b"!"); attempt(os.close, fd); print(open("f").read())`), out: "EILSEQ\né 2\nok\né!\n", log: once},
		{name: "zero bytes are text", script: `printf 'a\0b' > f; od -An -c f`, out: "   a  \\0   b\n", log: []string{"created f"}},
		{name: "cp", script: `printf '\377' > "$OUT/b"; echo old > f; ! cp "$OUT/b" f 2> "$OUT/err"; grep -q 'Invalid or incomplete' "$OUT/err"; ` + soon(`"$(cat f)" = old`) + `; cat f
			grep -c 'cp/f.*byte 0 is not UTF-8' ../.mneme/errors | sed 's/[1-9].*/explained/'`, out: "old\nexplained\n", log: []string{"created f"}},
	})
}

// TestNames holds which names there can be.
func TestNames(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	runUseCases(t, []useCase{
		{name: "refused", script: harness.PyErr(`
for name in [b"a\x01b", b"a\nb", b"a\tb", b"\x7f", "a\u200bb", "a\u202eb", "\ufeffa", "a\u2028b", "a\u0085b", "a\U000e0001b", "a\u200db", "\u200c", "👩\u200d", "می\u200c", "\u3164", "a\u2800b", "a\ufe0f", b"\xff\xfe", b"a\xc3", b"x" * 256, "é" * 128]:
    for way in [lambda n: write(n, b"x"), os.mkdir, lambda n: os.rename("f", n), os.unlink, os.stat, os.rmdir, lambda n: os.truncate(n, 0), lambda n: open(n), lambda n: os.rename(n, "g"), os.listdir, lambda n: os.chmod(n, 0o600), lambda n: os.getxattr(n, "user.x")]:
        write("f", b"x") if not os.path.exists("f") else None
        try: way(name); print("ok", end=" ")
        except OSError as e: print(errno.errorcode[e.errno], end=" ")
    print()
print(os.listdir("."))`), out: strings.Repeat(strings.Repeat("EINVAL ", 3)+strings.Repeat("ENOENT ", 9)+"\n", 17) +
			strings.Repeat(strings.Repeat("EILSEQ ", 3)+strings.Repeat("ENOENT ", 9)+"\n", 2) + strings.Repeat(strings.Repeat("ENAMETOOLONG ", 12)+"\n", 2) + "['f']\n", log: []string{"created f"}},
		{name: "allowed", script: harness.PyErr(`
names = ["👩\u200d🚀", "می\u200cخواهم", "क्\u200dष", "a b", "ä", "日本", "-x", "a:b", "a\\b", "'", '"', "$x", "*", "…", "😀", ".hidden", "a.", "a ", "x" * 255, "é" * 127, "CON", "%41"]
for n in names: write(n, n.encode())
assert sorted(os.listdir(".")) == sorted(names), os.listdir(".")
for n in names: assert open(n).read() == n; os.unlink(n)
print(os.listdir("."))`), out: "[]\n", log: func() (log []string) {
			names := []string{"👩\u200d🚀", "می\u200cخواهم", "क्\u200dष", "a b", "ä", "日本", "-x", "a:b", `a\b`, "'", `"`, "$x", "*", "…", "😀", ".hidden", "a.", "a ", strings.Repeat("x", 255), strings.Repeat("é", 127), "CON", "%41"}
			for _, op := range []string{"created ", "deleted "} {
				for _, n := range names {
					log = append(log, op+n)
				}
			}
			return log
		}()},
		{name: "deep", script: harness.PyErr(`
path = "/".join(["d"] * 18)  # below this case's own directory
os.makedirs(path); write(path + "/f", b"20 segments")
attempt(write, path + "/f2/g", b"x")
attempt(os.stat, path + "/f2/g"); attempt(os.stat, path + "/g")
attempt(os.mkdir, path + "/e")
print(open(path + "/f").read())
os.makedirs("x/y/z"); attempt(os.rename, "x", path.rsplit("/", 3)[0] + "/x")`), out: "ENOENT\nENOENT\nENOENT\nENAMETOOLONG\n20 segments\nok\n", log: []string{"created " + strings.Repeat("d/", 18) + "f"}},
		{name: "long", script: harness.PyErr(`
path = "/".join(["x" * 200] * 5)
os.makedirs("/".join(["x" * 200] * 4)); attempt(os.mkdir, path); write(path.rsplit("/", 1)[0] + "/f", b"x")
attempt(write, path + "/" + "y" * 13, b"x"); attempt(write, path + "/" + "y" * 14, b"x"); attempt(os.rename, path.rsplit("/", 1)[0] + "/f", path + "/" + "z" * 20)
attempt(os.stat, path + "/" + "y" * 14); attempt(os.unlink, path + "/" + "y" * 14); attempt(os.stat, path + "/" + "w" * 13)
print(len(os.listdir(path)))`), out: "ok\nok\n" + strings.Repeat("ENAMETOOLONG\n", 4) + "ENOENT\n1\n", log: []string{
			"created " + strings.Repeat(strings.Repeat("x", 200)+"/", 4) + "f", "created " + strings.Repeat(strings.Repeat("x", 200)+"/", 5) + strings.Repeat("y", 13)}},
		{name: "normal form", script: harness.PyErr(`
nfd, nfc = unicodedata.normalize("NFD", "café"), unicodedata.normalize("NFC", "café")
assert nfd != nfc
def check(*want):  # the kernel hears a moment later of the other spelling
    import time
    there = nfc in want or nfd in want
    for i in range(100):
        if all(os.path.exists(n) == there for n in (nfd, nfc)): break
        time.sleep(.01)
    got = os.listdir("."); assert sorted(got) == sorted(want), (got, want)
    for n in (nfd, nfc): assert os.path.exists(n) == there, (n, want)
check(); write(nfd, b"1"); check(nfd); assert open(nfc).read() == open(nfd).read() == "1"
write(nfc, b"2"); check(nfd); assert open(nfd).read() == "2"
os.unlink(nfd); check(); write(nfc, b"3"); check(nfc); os.unlink(nfc); check(); write(nfd, b"4"); os.unlink(nfd); check()
write("f", b"5"); os.rename("f", nfd); check(nfd); os.rename(nfd, "g"); check("g"); os.rename("g", nfc); check(nfc); os.rename(nfd, "h"); check("h"); os.unlink("h")
write(nfd, b"6"); os.rename(nfd, nfc); check(nfd); assert open(nfd).read() == "6"; os.rename(nfc, nfd); check(nfd)
attempt(os.open, nfd, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
attempt(os.mkdir, nfd); os.unlink(nfc); os.mkdir(nfd); check(nfd); attempt(os.mkdir, nfc); write(nfd + "/f", b"7"); assert open(nfc + "/f").read() == "7"
os.unlink(nfc + "/f"); os.rmdir(nfd); check()
long = "e\u0301" * 127; write(long, b""); print(len(os.listdir(".")[0].encode())); os.unlink(long)
print("done")`), out: "EEXIST\nEEXIST\nEEXIST\n254\ndone\n", log: []string{"created café", "modified café", "deleted café", "created café", "deleted café", "created café", "deleted café",
			"created f", "renamed f > café", "renamed café > g", "renamed g > café", "renamed café > h", "deleted h",
			"created café", "deleted café", "created café/f", "deleted café/f", "created " + strings.Repeat("é", 127), "deleted " + strings.Repeat("é", 127)}},
		{name: "dots", script: harness.PyErr(`
for n in [".", ".."]: attempt(os.mkdir, n); attempt(os.rmdir, n)
write("..a", b"x"); write("...", b"x"); print(sorted(os.listdir(".")))`), out: "EEXIST\nEINVAL\nEEXIST\nENOTEMPTY\n['...', '..a']\n", log: []string{"created ..a", "created ..."}},
	})
}

// TestNamesFromElsewhere holds that a name that another session makes or
// removes shows in every form.
func TestNamesFromElsewhere(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, `for i in 1 2; do test ! -e $'cafe\u0301'; test ! -e $'caf\u00e9'; done; ls`)
	e.MustIn(t, "x\n", "write", "notes:/cafe\u0301")
	sees(t, m, `test "$(cat $'cafe\u0301')" = x; test "$(cat $'caf\u00e9')" = x; test "$(ls | wc -l)" = 1`)
	e.Must(t, "rm", "notes:/caf\u00e9")
	sees(t, m, `test ! -e $'cafe\u0301'; test ! -e $'caf\u00e9'; test -z "$(ls)"`)
	for _, path := range []string{"/a/../b", "/./a", "//a", "/a\x01b", "/.mneme/x", "/" + strings.Repeat("x", 256), "a"} {
		if r := e.MnemeIn(t, "x", "write", "notes:"+path); r.Code != 2 && r.Code != 6 {
			t.Errorf("mneme write notes:%q: %v, want exit code 2 or 6", path, r)
		}
	}
	if got := e.Must(t, "ls", "notes"); got != "" {
		t.Errorf("ls: %q", got)
	}
}

// TestNamesFromMac copies names with decomposed accents with rsync, which removes the names that
// it finds and has not copied. A mount next to it lists the names as they were made, and so do
// later ones before any program has asked for a name.
func TestNamesFromMac(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "rsync", "python3")
	e := harness.NewEnv(t)
	source := t.TempDir()
	m, beside := e.Mount(t, "notes"), e.Mount(t, "notes")
	same := `diff <(cd ` + source + `; find . | sort) <(find . | sort)`
	m.Sh(t, `cd `+source+`; mkdir $'re\u0301sume\u0301'; for n in $'cafe\u0301' $'re\u0301sume\u0301/u\u0308' $'\u00e9'; do echo x > $n; done; cd "$OLDPWD"
		for i in 1 2; do rsync -a --delete-after `+source+`/ .; done; `+same)
	want := []string{"created café", "created résumé/ü", "created é"}
	slices.Sort(want)
	check := func() {
		t.Helper()
		got := harness.Changes(e.Commits(t, "notes"), "")
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
	}
	check()
	sees(t, beside, same)
	beside.Stop(t)
	m.Stop(t)
	e.MustIn(t, "x\n", "write", "notes:/\u00f6") // whose spelling the history does not have
	want = append(want, "created ö")
	if err := os.WriteFile(filepath.Join(source, "o\u0308"), []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	made := `diff <(cd ` + source + `; find . ! -name $'o\u0308' | sort) <(find . ! -name $'\u00f6' | sort); `
	asked := `stat $'o\u0308' > /dev/null; for i in $(seq 100); do ` + same + ` > /dev/null && break; sleep .01; done; ` + same + `; `
	for mode, copies := range map[string]string{
		"notes:ro": ``, "notes": `for when in before during after; do rsync -a --delete-$when ` + source + `/ .; done; `,
	} {
		m = e.Mount(t, mode)
		m.Sh(t, made+asked+copies+same)
		check()
		m.Stop(t)
	}
}

// TestRefused holds what no store can hold, and its errno.
func TestRefused(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	runUseCases(t, []useCase{
		{name: "kinds of files", script: harness.PyErr(`
write("f", b"x")
attempt(os.symlink, "f", "l"); attempt(os.link, "f", "l"); attempt(os.mkfifo, "l"); attempt(os.mknod, "l", stat.S_IFCHR | 0o600, os.makedev(1, 3))
attempt(os.mknod, "l", stat.S_IFBLK | 0o600, os.makedev(1, 3)); attempt(socket.socket(socket.AF_UNIX).bind, "l")
print(os.listdir("."))`), out: "EPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\n['f']\n", log: []string{"created f"}},
		{name: "regular files by mknod", script: harness.PyErr(`
attempt(os.mknod, "f"); attempt(os.mknod, "f"); os.mkdir("d"); attempt(os.mknod, "d"); attempt(os.mknod, "g", 0o600); attempt(os.mknod, "h", stat.S_IFREG | 0o4644); attempt(os.mknod, "x" * 256); attempt(os.mknod, "a\tb")
print(oct(os.stat("g").st_mode), os.stat("f").st_size); write("g", b"x"); os.mknod(".f.swp"); os.mknod("d/i.tmp"); os.rename("d/i.tmp", "d/i"); print(sorted(os.listdir(".")))`),
			out:     "ok\nEEXIST\nEEXIST\nok\nEPERM\nENAMETOOLONG\nEINVAL\n0o100600 0\n['.f.swp', 'd', 'f', 'g']\n",
			log:     []string{"created f", "created g", "modified g", "created d/i"},
			scratch: []string{".f.swp"}},
		{name: "owners and modes", script: harness.PyErr(`
write("f", b"x"); os.mkdir("d")
attempt(os.chown, "f", 1234, -1); attempt(os.chown, "f", -1, 1234); attempt(os.chown, "f", 0, 0); attempt(os.chown, "d", 1234, 1234)
attempt(os.chmod, "f", 0o4755); attempt(os.chmod, "f", 0o2755); attempt(os.chmod, "f", 0o1755); attempt(os.chmod, "d", 0o2755)
os.umask(0); attempt(os.open, "g", os.O_CREAT | os.O_WRONLY, 0o4755)
print(oct(os.stat("f").st_mode), os.stat("f").st_uid, sorted(os.listdir(".")))`),
			out: "EPERM\nEPERM\nok\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\n0o100644 0 ['d', 'f']\n", log: []string{"created f"}},
		{name: "ioctls", script: `echo x > f; ` + harness.PyErr(`
fd = os.open("f", os.O_RDONLY)
attempt(fcntl.ioctl, fd, 0x80086601, b"\0" * 8)  # FS_IOC_GETFLAGS
attempt(fcntl.ioctl, fd, 0x5401, b"\0" * 60)  # TCGETS
attempt(fcntl.ioctl, fd, 0x1234, 0)
attempt(fcntl.ioctl, os.open(".", os.O_RDONLY), 0x80086601, b"\0" * 8)`),
			out: "ENOTTY\nENOTTY\nENOTTY\nENOTTY\n", log: []string{"created f"}},
		{name: "attributes", script: `echo x > f; ` + harness.PyErr(`
attempt(os.setxattr, "f", "user.mneme.seq", b"1"); attempt(os.removexattr, "f", "user.mneme.seq")
attempt(os.setxattr, "f", "user.other", b"1"); attempt(os.getxattr, "f", "user.other"); attempt(os.getxattr, "f", "user.mneme.none")`),
			out: "ok\nok\nENOTSUP\nENODATA\nENODATA\n", log: []string{"created f"}},
		// mv between file systems copies attributes, and complains of every error but ENOTSUP.
		{name: "attributes of a file moved out and in", script: `echo x > f; mv f $OUT/f; mv $OUT/f g 2>&1; cat g`,
			out: "x\n", log: []string{"created f", "deleted f", "created g"}},
		{name: "allocation", script: `echo x > f; ` + harness.PyErr(`
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("f", os.O_RDWR)
print(libc.fallocate(fd, 0, 0, ctypes.c_long(100)), errno.errorcode[ctypes.get_errno()])
attempt(os.posix_fallocate, fd, 0, 100); os.close(fd)
print(os.stat("f").st_size)`), out: "-1 ENOTSUP\nok\n100\n", log: once},
		{name: "the reserved name", script: harness.PyErr(`
os.chdir("..")
attempt(os.mkdir, ".mneme"); attempt(write, ".mneme", b"x"); attempt(write, ".mneme/x", b"x"); attempt(os.rmdir, ".mneme"); attempt(os.rename, ".mneme", "x")
print(".mneme" in os.listdir("."), sorted(os.listdir(".mneme")))`), out: "EEXIST\nEISDIR\nEROFS\nEROFS\nEROFS\nFalse ['README', 'at', 'conflicts', 'errors', 'events', 'note', 'pack', 'status', 'versions']\n"},
		{name: "the reserved name below", script: `mkdir .mneme; echo x > .mneme/f; cat .mneme/f`, out: "x\n", log: []string{"created .mneme/f"}},
	})
}

// TestFullDisk holds that a full disk is reported, loses nothing, and passes.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	if err := os.Mkdir(e.Stores, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=3m,mode=700", "none", e.Stores).CombinedOutput(); err != nil {
		t.Fatalf("mount tmpfs: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", e.Stores).CombinedOutput(); err != nil {
			t.Errorf("unmount tmpfs: %v %s", err, out)
		}
	})
	m := e.Mount(t, "notes")
	m.Sh(t, `echo old > f; head -c 100000 /dev/zero | tr '\0' x > g`)
	fill := filepath.Join(e.Stores, "filler")
	if err := exec.Command("sh", "-c", `cat /dev/zero > "$0"; test -s "$0"`, fill).Run(); err != nil {
		t.Fatal(err)
	}
	out := m.Sh(t, harness.PyErr(`
def bounded(name, data):
    try: write(name, data); print("ok")
    except OSError as e: print("full" if e.errno in (errno.ENOSPC, errno.EDQUOT) else errno.errorcode[e.errno])
for i in range(3): bounded("f", b"y" * 100000); settled("f", "old\n")
bounded("new", b"z" * 100000)
print(len(open("g").read()))`)+soon("! -e new")+`; grep -c 'no space left' .mneme/errors | sed 's/[1-9].*/explained/'`)
	if want := "full\nold\nfull\nold\nfull\nold\nfull\n100000\nexplained\n"; out != want {
		t.Errorf("with a full disk: got %q, want %q", out, want)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	m.Sh(t, `echo new > f; cat f | grep -q new; echo z > new; rm g`)
	e.CheckHistory(t, "notes:/f", m.Session, "created modified")
	e.CheckChanges(t, "notes", "", "created f", "created g", "modified f", "created new", "deleted g")
}

// TestOtherLimits holds that a store's own limit is what counts.
func TestOtherLimits(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 10, 1000000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			e := harness.NewEnv(t)
			e.Store("notes", "--max-memory-bytes", fmt.Sprint(limit))
			m := e.Mount(t, "notes")
			m.Sh(t, fmt.Sprintf(`head -c %d /dev/zero > f; ! head -c $((%[1]d + 1)) /dev/zero > f 2> /dev/null; test $(wc -c < f) = %[1]d; ! echo > f/g 2> /dev/null`, limit))
			e.CheckHistory(t, "notes:/f", m.Session, "created")
		})
	}
}
