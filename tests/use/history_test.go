package use

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mneme/tests/harness"
)

// aboutMount is the part of `mneme status` about the mount at a directory.
func aboutMount(dir, status string) string {
	for line := range strings.Lines(status) {
		if strings.HasPrefix(line, dir+" ") {
			return line
		}
	}
	return ""
}

// TestCommandLineBesideMount holds that every command works while the store is
// mounted, and sees what the mount wrote.
func TestCommandLineBesideMount(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, `mkdir d; echo one > d/f; echo two > d/f; echo three > d/f; echo x > g; mv g h; rm h`)

	vs := e.CheckHistory(t, "notes:/d/f", m.Session, "created modified modified")
	e.CheckHistory(t, "notes:/h", m.Session, "created renamed deleted")
	e.CheckChanges(t, "notes", "", "created d/f", "modified d/f", "modified d/f", "created g", "renamed g > h", "deleted h")
	if out := e.Must(t, "ls", "notes:/d"); !strings.Contains(out, "f") {
		t.Errorf("ls: %q", out)
	}
	if out := e.Must(t, "cat", "notes:/d/f"); out != "three\n" {
		t.Errorf("cat: %q", out)
	}
	for i, want := range []string{"one\n", "two\n", "three\n"} {
		for _, ref := range []string{vs[i].ID, fmt.Sprint(vs[i].Seq)} {
			if out := e.Must(t, "cat", "notes:/d/f", "--version", ref); out != want {
				t.Errorf("cat --version %s: %q, want %q", ref, out, want)
			}
		}
	}
	if out := e.Must(t, "show", vs[1].ID); !strings.Contains(out, "-one") || !strings.Contains(out, "+two") || !strings.Contains(out, vs[0].ID) {
		t.Errorf("show: %s", out)
	}
	if out := e.Must(t, "diff", "notes:/d/f", vs[0].ID); !strings.Contains(out, "-one") || !strings.Contains(out, "+three") {
		t.Errorf("diff: %s", out)
	}

	restored := e.Must(t, "restore", "notes:/d/f", vs[0].ID)
	sees(t, m, `test "$(cat d/f)" = one`)
	if vs := e.CheckHistory(t, "notes:/d/f", "", "created modified modified modified"); vs[3].ID != strings.TrimSpace(restored) {
		t.Errorf("restore printed %q, the new version is %s", restored, vs[3].ID)
	}
	gone := e.Versions(t, "notes:/h")
	e.Must(t, "restore", "notes:/h", gone[1].ID)
	sees(t, m, `test "$(cat h)" = x`)
	if back := e.Versions(t, "notes:/h"); back[len(back)-1].MemoryID != gone[0].MemoryID {
		t.Errorf("what was deleted came back as another memory")
	}
	if r := e.Mneme("status", "--json"); r.Code != 0 || !strings.Contains(r.Stdout, m.At) {
		t.Errorf("status: %v", r)
	}
	foreign := " notes (" + e.URL() + ") "
	if text := aboutMount(m.At, e.Must(t, "status")); !strings.Contains(text, " notes ") || !strings.Contains(text, m.Session) || strings.Contains(text, foreign) {
		t.Errorf("status says of a mount of its stores: %q", text)
	}
	if text := e.Must(t, "status", "-v", "--mine"); !strings.Contains(text, "Mounted at  "+m.At+", by process") || !strings.Contains(text, "  session: "+m.Session+"\n") {
		t.Errorf("status -v says: %q", text)
	}
	elsewhere := *e
	elsewhere.Stores, elsewhere.Remote = filepath.Join(e.Dir, "elsewhere"), nil
	elsewhere.Must(t, "store", "create", "notes")
	if text := aboutMount(m.At, elsewhere.Must(t, "status")); !strings.Contains(text, foreign) {
		t.Errorf("status says of a mount of other stores: %q", text)
	}
	e.Must(t, "unmount", "--at", m.At)
	if !m.Wait(harness.MountPatience) {
		t.Errorf("the daemon outlives unmount")
	}
	if left := harness.MountsBelow(m.At); len(left) > 0 {
		t.Errorf("unmount left %v", left)
	}
}

// TestConditionalWriteBesideMount holds that conditions are about what the
// mount wrote last.
func TestConditionalWriteBesideMount(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, `echo one > f`)
	first := e.Versions(t, "notes:/f")[0]
	m.Sh(t, `echo two > f`)
	second := e.Versions(t, "notes:/f")[1]
	const conflict, notFound = 4, 3
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"write", "notes:/f", "--if-version", first.ID}, conflict},
		{[]string{"write", "notes:/f", "--if-version", fmt.Sprint(first.Seq)}, conflict},
		{[]string{"write", "notes:/f", "--if-sha256", first.SHA256}, conflict},
		{[]string{"write", "notes:/f", "--if-absent"}, conflict},
		{[]string{"write", "notes:/none", "--if-version", first.ID}, conflict},
		{[]string{"write", "notes:/f/below", "--if-absent"}, conflict},
		{[]string{"rm", "notes:/none"}, notFound},
		{[]string{"mv", "notes:/none", "notes:/g"}, notFound},
		{[]string{"write", "notes:/f", "--if-version", second.ID}, 0},
		{[]string{"write", "notes:/new", "--if-absent"}, 0},
	} {
		if r := e.MnemeIn(t, "from the command line\n", c.args...); r.Code != c.code {
			t.Errorf("mneme %s: %v\nwant exit code %d", strings.Join(c.args, " "), r, c.code)
		}
	}
	sees(t, m, `test "$(cat f)" = "from the command line"; test "$(cat new)" = "from the command line"`)
	e.CheckChanges(t, "notes", "", "created f", "modified f", "modified f", "created new")
	vs := e.Versions(t, "notes:/f")
	if by := vs[2].Actor["type"]; by != "user_actor" || vs[2].Session != "" || vs[1].Session != m.Session {
		t.Errorf("the command line wrote as %q in session %q, the mount in %q", by, vs[2].Session, vs[1].Session)
	}
}

// sees runs a condition in the mount until it holds, for a second; the promise
// is a tenth of that.
func sees(t testing.TB, m *harness.Mount, condition string) {
	t.Helper()
	r := m.Try(t, `set +e
		for i in $(seq 100); do ( set -e; `+condition+` ) > "$HOME/last-$$" 2>&1; if [ $? = 0 ]; then exit 0; fi; sleep .01; done
		cat "$HOME/last-$$"; exit 1`)
	if r.Code != 0 {
		t.Errorf("not seen within a second: %s\n%v", condition, r)
	}
}

// TestChangesArrive holds that what the command line or another mount changes
// shows on a mount whose kernel had cached what was there before.
func TestChangesArrive(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m, other := e.Mount(t, "notes"), e.Mount(t, "notes")
	cases := []struct {
		name   string
		before string                                 // on the mount, in a directory of the case's own
		warm   string                                 // makes the kernel cache what is going to be wrong
		change func(t *testing.T, memory, dir string) // what the directory is in the store, and on the other mount
		seen   string
	}{
		{
			name: "content", before: `echo old > f`, warm: `cat f; stat f; ls -l`,
			change: func(t *testing.T, memory, _ string) { e.MustIn(t, "newer\n", "write", memory+"/f") },
			seen:   `test "$(cat f)" = newer; test "$(stat -c %s f)" = 6`,
		},
		{
			name: "content of the same size", before: `echo old > f`, warm: `cat f; stat f; ls -l`,
			change: func(t *testing.T, memory, _ string) { e.MustIn(t, "new\n", "write", memory+"/f") },
			seen:   `test "$(cat f)" = new`,
		},
		{
			name: "shorter content", before: `seq 10000 > f`, warm: `cat f | wc; stat f; ls -l`,
			change: func(t *testing.T, memory, _ string) { e.MustIn(t, "short\n", "write", memory+"/f") },
			seen:   `test "$(cat f)" = short; test "$(wc -c < f)" = 6; test "$(tail -c 3 f)" = rt`,
		},
		{
			name: "new file looked for before", before: `mkdir d; echo x > d/x`, warm: `stat -c %y d > "$HOME/times"; for i in 1 2 3; do cat d/f 2>/dev/null || true; test ! -e d/f; done; ls -la d`,
			change: func(t *testing.T, memory, _ string) { e.MustIn(t, "new\n", "write", memory+"/d/f") },
			seen:   `test "$(cat d/f)" = new; test "$(ls d | xargs)" = "f x"; test "$(stat -c %y d)" != "$(cat "$HOME/times")"`,
		},
		{
			name: "new directory", before: `echo x > x`, warm: `ls -R; cat a/b/f 2>/dev/null || true; stat a 2>/dev/null || true; find . -type d`,
			change: func(t *testing.T, memory, _ string) { e.MustIn(t, "new\n", "write", memory+"/a/b/f") },
			seen:   `test "$(cat a/b/f)" = new; test "$(find . -type f | sort | xargs)" = "./a/b/f ./x"`,
		},
		{
			name: "deletion", before: `echo x > x; echo y > y`, warm: `cat x y; ls -l`,
			change: func(t *testing.T, memory, _ string) { e.Must(t, "rm", memory+"/x") },
			seen:   `test ! -e x; test "$(ls)" = y; ! cat x`,
		},
		{
			name: "deletion of a directory's last file", before: `mkdir -p a/b; echo x > a/b/x; echo y > y`, warm: `cat a/b/x; ls -lR`,
			change: func(t *testing.T, memory, _ string) { e.Must(t, "rm", memory+"/a/b/x") },
			seen:   `test ! -e a/b/x; test "$(find . -type f)" = ./y`,
		},
		{
			name: "rename", before: `echo x > x; echo y > y`, warm: `cat x y; ls -l; cat z 2>/dev/null || true`,
			change: func(t *testing.T, memory, _ string) { e.Must(t, "mv", memory+"/x", memory+"/z") },
			seen:   `test ! -e x; test "$(cat z)" = x; test "$(ls | xargs)" = "y z"`,
		},
		{
			name: "rename of a directory", before: `mkdir a; echo x > a/x; echo y > a/y`, warm: `cat a/*; ls -lR; ls b 2>/dev/null || true`,
			change: func(t *testing.T, memory, _ string) { e.Must(t, "mv", memory+"/a", memory+"/b") },
			seen:   `test ! -e a/x; test "$(cat b/x b/y | xargs)" = "x y"`,
		},
		{
			name: "deleted and made again", before: `echo old > f`, warm: `cat f; stat f`,
			change: func(t *testing.T, memory, _ string) {
				e.Must(t, "rm", memory+"/f")
				e.MustIn(t, "again\n", "write", memory+"/f")
			},
			seen: `test "$(cat f)" = again; test "$(stat -c %s f)" = 6`,
		},
		{
			name: "file becomes directory", before: `echo old > f`, warm: `cat f; stat f; ls -l`,
			change: func(t *testing.T, memory, _ string) {
				e.Must(t, "rm", memory+"/f")
				e.MustIn(t, "new\n", "write", memory+"/f/g")
			},
			seen: `test "$(cat f/g)" = new; test -d f`,
		},
		{
			name: "another mount writes", before: `echo old > f`, warm: `cat f; stat f`,
			change: func(t *testing.T, _, dir string) {
				other.ShIn(t, dir, `test "$(cat f)" = old; echo newer > f; echo x > g`)
			},
			seen: `test "$(cat f g | xargs)" = "newer x"`,
		},
		{
			name: "another mount saves by rename", before: `echo old > f`, warm: `cat f; stat f`,
			change: func(t *testing.T, _, dir string) {
				other.ShIn(t, dir, `sed -i s/old/newer/ f; mkdir d; mv f d/g`)
			},
			seen: `test "$(cat d/g)" = newer; test ! -e f`,
		},
		{
			name: "many files", before: `echo old > f`, warm: `ls`,
			change: func(t *testing.T, _, dir string) {
				other.ShIn(t, dir, `mkdir d; for i in $(seq 200); do echo $i > d/$i; done`)
			},
			seen: `test "$(ls d | wc -l)" = 200; test "$(cat d/* | sort -n | tail -n 1)" = 200`,
		},
	}
	// One step of all cases after the other: what is far is waited for once.
	in := func(i int, script string) string { return fmt.Sprintf("cd case%d; %s", i, script) }
	for i, c := range cases {
		m.Sh(t, fmt.Sprintf("mkdir case%d; ", i)+in(i, c.before))
		m.Sh(t, in(i, c.warm))
	}
	for i, c := range cases {
		sees(t, other, in(i, strings.ReplaceAll(c.warm, "stat a", "true")))
	}
	for i, c := range cases {
		name := fmt.Sprint("case", i)
		c.change(t, "notes:/"+name, filepath.Join(other.Dir, name))
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			sees(t, m, in(i, c.seen))
			sees(t, other, in(i, c.seen))
			m.Sh(t, in(i, c.seen)) // and it stays so
		})
	}
}

// TestOpenReadersKeepTheirVersion holds that a reader with the file open, or
// mapped, goes on reading the version that he opened, however he asks, while
// who opens the name finds the new one.
func TestOpenReadersKeepTheirVersion(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, `echo old text > f; echo moved > g; echo removed > h`)
	reader := m.Background(t, `python3 - <<'END'
import mmap, os, time
files = {name: open(name, "rb", buffering=0) for name in "fgh"}
mapped = mmap.mmap(files["f"].fileno(), 9, prot=mmap.PROT_READ)
unread = os.open("f", os.O_RDONLY)
def old(when):
    for name, text in ("f", b"old text\n"), ("g", b"moved\n"), ("h", b"removed\n"):
        files[name].seek(0)
        got = files[name].read()
        assert got == text, f"{when}: {name} is {got}"
        size = os.fstat(files[name].fileno()).st_size
        assert size == len(text), f"{when}: {name} has {size} bytes"
    assert mapped[:] == b"old text\n", f"{when}: {mapped[:]} mapped"
old("before")
open(os.environ["HOME"] + "/ready", "w").close()
end = time.time() + 10
def new():
    return open("f").read() == "the new text, longer\n" and os.path.exists("moved") and not os.path.exists("h")
while not new():
    assert time.time() < end, "never"
    old("meanwhile")
    time.sleep(.005)
old("after")
got = os.pread(unread, 100, 0)
assert got == b"old text\n", f"read for the first time: {got}"
END`)
	sees(t, m, `test -e "$HOME/ready"`)
	e.MustIn(t, "the new text, longer\n", "write", "notes:/f")
	e.Must(t, "mv", "notes:/g", "notes:/moved")
	e.Must(t, "rm", "notes:/h")
	if r := reader(); r.Code != 0 {
		t.Error(r)
	}
}

// TestFollowedByName holds that a program which follows a file by its name sees
// what other sessions append.
func TestFollowedByName(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, `echo one > log`)
	tail := m.Background(t, `{ timeout 20 tail -s .05 -n +1 -F log 2>/dev/null || true; } | sed -u '/three/q' | sort -u`)
	e.MustIn(t, "one\ntwo\n", "write", "notes:/log")
	e.MustIn(t, "one\ntwo\nthree\n", "write", "notes:/log")
	if r := tail(); r.Code != 0 || r.Stdout != "one\nthree\ntwo\n" {
		t.Error(r)
	}
}

// TestVisibilityDelay measures how long a write from the command line takes to
// show, and the other way round. The promise is 100 ms; this machine may be
// busy, so that only a second fails the test.
func TestVisibilityDelay(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	out := m.Sh(t, `echo 0 > f; python3 - <<'END'
import json, os, subprocess, time
delays = []
def timed(ready):
    start = time.perf_counter()
    while not ready():
        if time.perf_counter() - start > 5: raise SystemExit("never")
        time.sleep(.0005)
    return time.perf_counter() - start
for i in range(1, 21):
    text = f"{i}\n"
    subprocess.run(["mneme", "write", "notes:/f"], input=text, text=True, check=True, stdout=subprocess.DEVNULL)
    delays.append(timed(lambda: open("f").read() == text))
print(json.dumps(delays))
END`)
	delays := harness.DecodeLines[[]float64](t, out)[0]
	slices.Sort(delays)
	at := func(q float64) time.Duration {
		return time.Duration(delays[int(q*float64(len(delays)-1))] * float64(time.Second))
	}
	t.Logf("from the end of `mneme write` to the mount: p50 %v, p99 %v", at(.5), at(.99))
	if at(.99) > harness.SlownessOf(t)*time.Second {
		t.Errorf("p99 is %v", at(.99))
	}
	for i := range 5 { // the other way round there is no delay: the version is there before close returns
		m.Sh(t, fmt.Sprintf(`echo %d > g; test "$(mneme cat notes:/g)" = %[1]d`, i))
	}
}

// TestXattrsTellTheVersion holds that a program can find out what it reads.
func TestXattrsTellTheVersion(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, `echo one > f; echo two > f`)
	v := e.Versions(t, "notes:/f")[1]
	read := func() map[string]string {
		var got map[string]string
		out := m.Sh(t, `python3 -c 'import json, os; print(json.dumps({n: os.getxattr("f", n).decode() for n in os.listxattr("f")}))'`)
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := read()
	for name, want := range map[string]string{
		"version": v.ID, "seq": fmt.Sprint(v.Seq), "sha256": v.SHA256, "memory_id": v.MemoryID, "session": m.Session,
	} {
		if got["user.mneme."+name] != want {
			t.Errorf("user.mneme.%s is %q, want %q", name, got["user.mneme."+name], want)
		}
	}
	if !strings.Contains(got["user.mneme.actor"], m.Session) || len(got) != 6 {
		t.Errorf("the attributes are %v", got)
	}
	e.MustIn(t, "three\n", "write", "notes:/f")
	sees(t, m, `test "$(cat f)" = three`)
	if got := read(); got["user.mneme.seq"] != "4" || got["user.mneme.session"] != "" {
		t.Errorf("after a write from the command line: %v", got)
	}
}

// TestCopiesWithXattrs copies a file with its attributes within the store, out of
// it and into it: each copy in the store has its own, whatever it was given.
func TestCopiesWithXattrs(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3", "rsync", "tar")
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	out := t.TempDir()
	m.Sh(t, `set -e; OUT=`+out+`; mkdir d; echo one > d/f
cp --preserve=xattr d/f copied; cp -a d archived; rsync -aX d/ synced; rsync -aX d/ synced; tar --xattrs --xattrs-include='*' -cf - d | tar --xattrs --xattrs-include='*' -xf - -C archived
rsync -aX d/ $OUT/d; cp --preserve=xattr d/f $OUT/f; test "$(python3 -c 'import os; print(os.getxattr("'$OUT'/f", "user.mneme.seq").decode())')" = 3
cp --preserve=xattr $OUT/f back; rsync -aX $OUT/d/ again; mv $OUT/f moved`)
	for name, place := range map[string]string{
		"copied": "notes:/copied", "archived/f": "notes:/archived/f", "synced/f": "notes:/synced/f", "archived/d/f": "notes:/archived/d/f",
		"back": "notes:/back", "again/f": "notes:/again/f", "moved": "notes:/moved",
	} {
		versions := e.Versions(t, place)
		seq := m.Sh(t, `python3 -c 'import os; print(os.getxattr("`+name+`", "user.mneme.seq").decode(), end="")'`)
		if newest := versions[len(versions)-1]; seq != fmt.Sprint(newest.Seq) {
			t.Errorf("%s says that it is %s, and is %d", name, seq, newest.Seq)
		}
	}
}
