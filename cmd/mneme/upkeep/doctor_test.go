package upkeep

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/daemon"
)

// TestDoctorFindings holds that each thing that a machine may lack is found, with what to do, and
// that only failures make it fail.
func TestDoctorFindings(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("# user_allow_other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	allows := filepath.Join(dir, "allows")
	if err := os.WriteFile(allows, []byte("mount_max = 10\nuser_allow_other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	full, empty := filepath.Join(dir, "full"), filepath.Join(dir, "empty")
	if err := errors.Join(os.MkdirAll(filepath.Join(full, "x"), 0o700), os.Mkdir(empty, 0o700)); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(dir, "theirs")
	if err := errors.Join(os.Mkdir(theirs, 0o755), os.Chown(theirs, 1000, 1000)); err != nil && os.Geteuid() == 0 {
		t.Fatal(err)
	}
	healthy := machine{fuse: func() error { return nil }, release: func() string { return "6.12.3-1" }}
	with := func(change func(*machine)) machine {
		m := healthy
		change(&m)
		return m
	}
	on := func(m machine) func(*examination) {
		return func(e *examination) { e.machine(m, filepath.Join(dir, "mnt")) }
	}
	for _, test := range []struct {
		name  string
		look  func(*examination)
		check string
		state string
		note  string
	}{
		{"nothing", on(healthy), "fuse", stateOK, ""},
		{"no device", on(with(func(m *machine) { m.fuse = func() error { return daemon.CheckFuseAt(filepath.Join(dir, "fuse")) } })), "fuse", stateFailure, "`modprobe fuse`"},
		{"an old kernel", on(with(func(m *machine) { m.release = func() string { return "5.10.0-8-amd64" } })), "kernel", stateWarning, "needs 6.9 or newer"},
		{"a new kernel", on(healthy), "kernel", stateOK, "Linux 6.12.3"},
		{"a strange kernel", on(with(func(m *machine) { m.release = func() string { return "beta" } })), "kernel", stateWarning, `"beta"`},
		{"a user alone", on(with(func(m *machine) { m.uid, m.fuseConf = 1, file })), "fuse for other users", stateWarning, "a line user_allow_other in "},
		{"a user with others", on(with(func(m *machine) { m.uid, m.fuseConf = 1, allows })), "fuse for other users", stateOK, ""},
		{"a file to mount at", func(e *examination) { e.mountDir(file) }, "mount directory", stateFailure, "is no directory"},
		{"a directory that is not empty", func(e *examination) { e.mountDir(full) }, "mount directory", stateFailure, "is not empty (it holds x)"},
		{"an empty directory", func(e *examination) { e.mountDir(empty) }, "mount directory", stateOK, ""},
		{"a directory of root's", func(e *examination) { asNobody(t, func() { e.mountDir("/") }) }, "mount directory", stateFailure, "`sudo chown $USER "},
		{"a device without the right to mount", func(e *examination) {
			withoutMounts(t, func() {
				e.machine(with(func(m *machine) { m.fuse = func() error { return daemon.CheckFuseAt(os.DevNull) } }), empty)
			})
		},
			"fuse", stateFailure, "--cap-add SYS_ADMIN"},
		{"a directory to be made", func(e *examination) { e.mountDir(filepath.Join(dir, "a", "b")) }, "mount directory", stateOK, "is made by the first mount"},
		{"a directory to be made in another user's", func(e *examination) { e.mountDir(filepath.Join(theirs, "a", "b")) }, "mount directory", ifRoot(stateFailure, stateOK), ifRoot("mount as that user", "")},
		{"a file for state", func(e *examination) { e.directory("state directory", file) }, "state directory", stateFailure, "is no directory"},
		{"below a file", func(e *examination) { e.directory("state directory", filepath.Join(file, "x")) }, "state directory", stateFailure, "not a directory"},
		{"open to all", func(e *examination) { e.directory("state directory", open) }, "state directory", stateWarning, "`chmod go-w "},
		{"one's own", func(e *examination) { e.directory("state directory", dir) }, "state directory", stateOK, " free"},
		{"no stores at a URL", func(e *examination) { url := "file://" + dir + "/none"; e.stores(t.Context(), &url) }, "stores", stateFailure, "mneme store create"},
		{"a wrong URL", func(e *examination) { url := "nfs://x"; e.stores(t.Context(), &url) }, "stores", stateFailure, "nfs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			e := &examination{a: &app.App{Console: &term.Console{Out: bufio.NewWriter(&out), JSON: true}}}
			test.look(e)
			for line := range bytes.Lines(out.Bytes()) {
				var found ailment
				if err := json.Unmarshal(line, &found); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				if found.What != test.check {
					continue
				}
				if found.State != test.state || !strings.Contains(found.Note, test.note) {
					t.Errorf("found is %+v, want %s with %q", found, test.state, test.note)
				}
				if e.failed != (test.state == stateFailure) {
					t.Errorf("it fails: %v", e.failed)
				}
				return
			}
			t.Errorf("nothing says how the %s is:\n%s", test.check, &out)
		})
	}
}

// ifRoot returns the first text if the tests run as root, and else the other one.
func ifRoot(root, other string) string {
	if os.Geteuid() == 0 {
		return root
	}
	return other
}
