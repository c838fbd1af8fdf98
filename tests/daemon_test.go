package tests

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMountHelper mounts as mount(8) does for /etc/fstab: in the background, by
// this program under another name. It is quiet, and what it does is in its log.
func TestMountHelper(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.store("notes")
	e.store("book")
	helper := filepath.Join(e.dir, "mount.mneme")
	if err := os.Symlink(binary, helper); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(e.dir, "mnt")
	t.Cleanup(func() { e.mneme("unmount", "--at", at, "--lazy") })
	r := e.run(t, mountPatience, "", func() {}, helper, "notes,book:ro", at, "-n", "-o", "rw,_netdev,session=host-1,owner=nobody")
	if r.code != 0 || r.stdout != "" || r.stderr != "" {
		t.Fatalf("the helper: %v", r)
	}
	shown := e.run(t, scriptPatience, "", func() {}, "sh", "-c", `stat -c '%U %n' "$1"/*; cat "$1/book/.mneme/status"`, "sh", at).stdout
	for _, want := range []string{"nobody " + at + "/notes\n", "session: host-1\n", "access: read-only\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("want %q in %q", want, shown)
		}
	}
	e.must(t, "unmount", "--at", at)
	logs, err := filepath.Glob(filepath.Join(e.home, ".local", "state", "mneme", "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("the logs are %v, %v", logs, err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"level=INFO msg=mounted version=", "stores=\"[notes book:ro]\" session=host-1", "msg=ending cause=\"terminated", "msg=ended\n",
	} {
		if strings.Count(string(text), want) != 1 {
			t.Errorf("want %q once in the log:\n%s", want, text)
		}
	}
	if r := e.run(t, mountPatience, "", func() {}, helper, "notes", at, "-f"); r.code != 0 || len(mountsBelow(at)) > 0 {
		t.Errorf("with -f: %v", r)
	}
	if r := e.run(t, mountPatience, "", func() {}, helper, "notes", at, "-o", "nonsense"); r.code != 2 || !strings.Contains(r.stderr, "--nonsense") {
		t.Errorf("an unknown option: %v", r)
	}
}

// TestService runs a mount under a service manager, which hears when it is ready
// and when it ends, and logs what happens.
func TestService(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	path := filepath.Join(e.dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	told := func(want string) {
		t.Helper()
		buf := make([]byte, 100)
		_ = conn.SetReadDeadline(time.Now().Add(mountPatience))
		n, err := conn.Read(buf)
		if got := string(buf[:n]); err != nil || got != want {
			t.Errorf("the service manager was told %q, %v, want %q", got, err, want)
		}
	}
	e.vars = append(e.vars, "NOTIFY_SOCKET="+path)
	m := e.mount(t, "notes")
	told("READY=1")
	m.lose(t, "f", "one", "two", "mine")
	m.stop(t)
	told("STOPPING=1")
	for _, want := range []string{"msg=mounted version=", `msg=conflict store=notes path=/f conflict=1`, "msg=ending cause=\"terminated signal received\""} {
		if !strings.Contains(m.stderr.String(), want) {
			t.Errorf("want %q in the log:\n%s", want, m.stderr)
		}
	}
}

// TestMountThatCannotServe holds that a mount leaves no directory of its own where what
// comes after mounting fails.
func TestMountThatCannotServe(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.store("notes")
	at := filepath.Join(e.dir, "made")
	for _, want := range []bool{false, true} {
		r := e.mneme("mount", "notes", "--at", at, "--background", "--metrics-addr", "192.0.2.1:9") // which is nobody's
		if _, err := os.Stat(at); r.code == 0 || (err == nil) != want || len(mountsBelow(at)) > 0 {
			t.Errorf("%v\nafter that there is %v, %v", r, err, mountsBelow(at))
		}
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
