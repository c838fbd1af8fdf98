package use

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mneme/tests/harness"
)

// TestMountHelper mounts as mount(8) does for /etc/fstab: in the background, by
// this program under another name. It is quiet, and what it does is in its log.
func TestMountHelper(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	e.Store("book")
	helper := filepath.Join(e.Dir, "mount.mneme")
	if err := os.Symlink(harness.Binary, helper); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(e.Dir, "mnt")
	t.Cleanup(func() { e.Mneme("unmount", "--at", at, "--lazy") })
	r := e.Run(t, harness.MountPatience, "", func() {}, helper, "notes,book:ro", at, "-n", "-o", "rw,_netdev,session=host-1,owner=nobody")
	if r.Code != 0 || r.Stdout != "" || r.Stderr != "" {
		t.Fatalf("the helper: %v", r)
	}
	shown := e.Run(t, harness.ScriptPatience, "", func() {}, "sh", "-c", `stat -c '%U %n' "$1"/*; cat "$1/book/.mneme/status"`, "sh", at).Stdout
	for _, want := range []string{"nobody " + at + "/notes\n", "session: host-1\n", "access: read-only\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("want %q in %q", want, shown)
		}
	}
	e.Must(t, "unmount", "--at", at)
	logs, err := filepath.Glob(filepath.Join(e.Home, ".local", "state", "mneme", "*.log"))
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
	if r := e.Run(t, harness.MountPatience, "", func() {}, helper, "notes", at, "-f"); r.Code != 0 || len(harness.MountsBelow(at)) > 0 {
		t.Errorf("with -f: %v", r)
	}
	if r := e.Run(t, harness.MountPatience, "", func() {}, helper, "notes", at, "-o", "nonsense"); r.Code != 2 || !strings.Contains(r.Stderr, "--nonsense") {
		t.Errorf("an unknown option: %v", r)
	}
}

// TestService runs a mount under a service manager, which hears when it is ready
// and when it ends, and logs what happens.
func TestService(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	path := filepath.Join(e.Dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	told := func(want string) {
		t.Helper()
		buf := make([]byte, 100)
		_ = conn.SetReadDeadline(time.Now().Add(harness.MountPatience))
		n, err := conn.Read(buf)
		if got := string(buf[:n]); err != nil || got != want {
			t.Errorf("the service manager was told %q, %v, want %q", got, err, want)
		}
	}
	e.Vars = append(e.Vars, "NOTIFY_SOCKET="+path)
	m := e.Mount(t, "notes")
	told("READY=1")
	m.Lose(t, "f", "one", "two", "mine")
	m.Stop(t)
	told("STOPPING=1")
	for _, want := range []string{"msg=mounted version=", `msg=conflict store=notes path=/f conflict=1`, "msg=ending cause=\"terminated signal received\""} {
		if !strings.Contains(m.Stderr.String(), want) {
			t.Errorf("want %q in the log:\n%s", want, m.Stderr)
		}
	}
}

// TestMountThatCannotServe holds that a mount leaves no directory of its own where what
// comes after mounting fails.
func TestMountThatCannotServe(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	at := filepath.Join(e.Dir, "made")
	for _, want := range []bool{false, true} {
		r := e.Mneme("mount", "notes", "--at", at, "--background", "--metrics-addr", "192.0.2.1:9") // an address that no machine has
		if _, err := os.Stat(at); r.Code == 0 || (err == nil) != want || len(harness.MountsBelow(at)) > 0 {
			t.Errorf("%v\nafter that there is %v, %v", r, err, harness.MountsBelow(at))
		}
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
