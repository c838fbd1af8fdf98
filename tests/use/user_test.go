package use

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// withoutFuse3 returns a $PATH on which there is everything but fusermount3.
func withoutFuse3(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(harness.WorkDir, "path-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mneme", "bash", "cat", "sh", "grep", "env", "find", "mkdir"} {
		for _, from := range filepath.SplitList(harness.SearchPath()) {
			file := filepath.Join(from, name)
			if _, err := os.Stat(file); err == nil {
				if err := os.Symlink(file, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
	}
	return dir
}

// A user who is not root mounts through fusermount3. No other user is let in, not even root.
func TestMountAsUser(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "fusermount3")
	e := harness.NewUser(t)
	r := e.Inside(t, harness.SearchPath(), `
		user '
			mneme store create notes >&2
			mneme mount notes --background --session mine --at $at >&2
			cd $at/notes
			echo one > a.md; echo two >> a.md; mkdir -p d/e; mv a.md d/e/; sed -i s/two/deux/ d/e/a.md
			stat -c %u:%g d/e/a.md; cat d/e/a.md; ls; id -u
			printf "#!/bin/sh\n" > script; chmod 700 script; ./script || echo noexec $?; rm script'
		if ls $at/notes; then echo root got in; fi
		mounts
		user '
			mneme log notes:/d/e/a.md --json | grep -c memory_version
			mneme status | grep -F $at >&2
			mneme unmount --at $at >&2
			mneme cat notes:/d/e/a.md'
		mounts`)
	if want := "65534:65534\none\ndeux\nd\n65534\nnoexec 126\n1\n4\none\ndeux\n0\n"; r.Code != 0 || r.Stdout != want {
		t.Errorf("%v\nwant stdout:\n%s", r, want)
	}
}

// A dead mount of a user's is cleared by the next mount, and by unmount.
func TestDeadMountOfUser(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "fusermount3")
	e := harness.NewUser(t)
	r := e.Inside(t, harness.SearchPath(), `
		mount='mneme mount notes --background --json --at $at | grep -o "\"pid\":[0-9]*" | cut -d: -f2'
		end='kill -9 $pid; while grep -qs "^State:.[^ZX]" /proc/$pid/status; do :; done'
		user "mneme store create notes >&2; pid=\$($mount); echo x > $at/notes/f; $end"
		user "pid=\$($mount); cat $at/notes/f; $end"
		mounts
		user 'mneme unmount --at $at >&2'
		mounts`)
	if want := "x\n1\n0\n"; r.Code != 0 || r.Stdout != want {
		t.Errorf("%v\nwant stdout:\n%s", r, want)
	}
}

// A user's mount with a keeper goes on when who serves it is killed, and is replaced.
func TestKeeperOfUser(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "fusermount3")
	e := harness.NewUser(t)
	r := e.Inside(t, harness.SearchPath(), `
		user '
			mneme store create notes >&2
			pid=$(mneme mount notes --background --keep --json --at $at | grep -o "\"pid\":[0-9]*" | cut -d: -f2)
			echo one > $at/notes/f; exec 3< $at/notes/f
			kill -9 $(cat /proc/$pid/task/*/children)
			cat <&3; echo two >> $at/notes/f; cat $at/notes/f
			mneme mount --replace --at $at >&2
			cat $at/notes/f
			mneme unmount --at $at >&2'
		mounts`)
	if want := "one\none\ntwo\none\ntwo\n0\n"; r.Code != 0 || r.Stdout != want {
		t.Errorf("%v\nwant stdout:\n%s", r, want)
	}
}

// Without fusermount3 the error says what to install.
func TestMountAsUserWithoutFuse3(t *testing.T) {
	t.Parallel()
	e := harness.NewUser(t)
	r := e.Inside(t, withoutFuse3(t), `
		user 'mneme store create notes >&2; ! command -v fusermount3'
		user 'mneme mount notes --at $at || echo code $?'
		user 'mneme mount notes --background --json --at $at || echo code $?'
		mounts`)
	if r.Code != 0 || r.Stdout != "code 1\ncode 1\n0\n" || strings.Count(r.Stderr, "apt-get install fuse3") != 2 {
		t.Errorf("mount without fusermount3: %v", r)
	}
}

// A mount that fails leaves no directory and no log that were not there before.
func TestFailedMountLeavesNothing(t *testing.T) {
	t.Parallel()
	e := harness.NewUser(t)
	path := withoutFuse3(t)
	if err := os.WriteFile(filepath.Join(path, "fusermount3"), []byte("#!/bin/sh\necho no >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := e.Inside(t, path, `
		user 'mneme store create notes >&2
			failed() { test -e $at && echo there || echo gone; find $HOME -name "*.log" | grep -c . || true; }
			! mneme mount notes --at $at; failed
			! mneme mount notes --background --at $at; failed
			! mneme mount nothing --background --at $at; failed
			mkdir $at; ! mneme mount notes --at $at; failed'
		mounts`)
	if want := "gone\n0\ngone\n0\ngone\n0\nthere\n0\n0\n"; r.Code != 0 || r.Stdout != want {
		t.Errorf("%v\nwant stdout:\n%s", r, want)
	}
}

// A user who may not open /dev/fuse is told so.
func TestMountAsUserWithoutDevice(t *testing.T) {
	t.Parallel()
	e := harness.NewUser(t)
	r := e.Inside(t, harness.SearchPath(), `
		chmod 600 $dev/fuse
		user 'mneme store create notes >&2; mneme mount notes --at $at || echo code $?'`)
	if r.Code != 0 || r.Stdout != "code 5\n" || !strings.Contains(r.Stderr, "/dev/fuse") {
		t.Errorf("mount without the device: %v", r)
	}
}

// Root needs no fuse3.
func TestMountAsRootWithoutFuse3(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "unshare")
	e := harness.NewEnv(t)
	if err := os.Mkdir(filepath.Join(e.Dir, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := e.Inside(t, harness.SearchPath(), `
		PATH=`+withoutFuse3(t)+`
		! command -v fusermount3
		mneme store create notes >&2
		mneme mount notes --background --at $at >&2
		echo hello > $at/notes/a.md
		cat $at/notes/a.md
		mounts
		mneme unmount --at $at >&2
		mounts`)
	if want := "hello\n1\n0\n"; r.Code != 0 || r.Stdout != want {
		t.Errorf("mount as root without fuse3: %v", r)
	}
}
