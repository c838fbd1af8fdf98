package use

import (
	"strings"
	"testing"

	"mneme/tests/harness"
)

// TestMadeAgainAfterRefusal holds that a file whose content was refused can be
// made again at once, though the kernel still has the name of the refused one.
func TestMadeAgainAfterRefusal(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	out := m.Sh(t, `for i in $(seq 50); do printf '\377' > v 2> /dev/null || true; echo good > v; cat v; rm v; done | sort | uniq -c
		for i in 1 2 3 4 5; do printf '\377' | cat > w || true; done 2>&1 | uniq -c`)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 || strings.TrimSpace(lines[0]) != "50 good" ||
		!strings.HasPrefix(strings.TrimSpace(lines[1]), "5 ") || !strings.Contains(lines[1], "Invalid or incomplete") {
		t.Errorf("50 files made again, and 5 refused alike, gave\n%s", out)
	}
}

// TestArchivedWhileMounted holds that a mount turns read-only when its store
// is archived.
func TestArchivedWhileMounted(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, `echo a > a; echo b > b; mkdir d`)
	e.Must(t, "store", "archive", "notes", "--yes", "--force")
	out := m.Sh(t, harness.PyErr(`
attempt(open, "a", "w"); attempt(open, "a", "r+"); attempt(open, "new", "w"); attempt(os.remove, "a")
attempt(os.rename, "a", "c"); attempt(os.mkdir, "e"); attempt(os.rmdir, "d"); attempt(os.truncate, "a", 0)
print(open("a").read(), "read-only" in open(".mneme/status").read())`))
	if want := strings.Repeat("EROFS\n", 8) + "a\n True\n"; out != want {
		t.Errorf("on a mount of a store that has been archived:\n%s", out)
	}
}

// TestLazyUnmountLeavesTheNextAlone holds that a daemon whose mount was
// detached while in use does not, when it ends, take away the mount that has
// taken its place.
func TestLazyUnmountLeavesTheNextAlone(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	first := e.Mount(t, "notes")
	first.Sh(t, `echo x > f`)
	user := first.Background(t, `exec 3< f; for i in $(seq 500); do test -e "$HOME/go" && exit; sleep .01; done`)
	e.Must(t, "unmount", "--at", first.At, "--lazy")
	e.Must(t, "mount", "notes", "--at", first.At, "--session", "second", "--background")
	t.Cleanup(func() { e.Mneme("unmount", "--at", first.At) })
	e.Run(t, harness.ScriptPatience, "", func() {}, "touch", e.Home+"/go")
	user()
	if !first.Wait(harness.MountPatience) {
		t.Error("the first daemon goes on though nobody uses its mount")
	}
	if left := harness.MountsBelow(first.At); len(left) != 1 {
		t.Errorf("mounted there: %v, want the second mount", left)
	}
}
