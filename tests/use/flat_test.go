package use

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// TestFlatMount mounts a store as the directory itself, with what commands say of it.
func TestFlatMount(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	at := filepath.Join(e.Dir, "memory")
	e.Store("notes")
	e.Store("book")
	for _, args := range [][]string{{"notes", "book"}, {"notes:ro", "book"}} {
		if r := e.Mneme(append([]string{"mount", "--flat", "--at", at}, args...)...); r.Code != 2 || !strings.Contains(r.Stderr, "one store") {
			t.Errorf("mount --flat %v: %v", args, r)
		}
	}
	if out := e.Must(t, "mount", "notes", "--flat", "--at", at, "--print-prompt"); !strings.Contains(out, "- notes, at "+at+" (") {
		t.Errorf("the prompt:\n%s", out)
	}
	m, other := e.Mount(t, "notes", "--flat", "--at="+at), e.Mount(t, "notes")
	if out := m.Sh(t, "echo one > f; mkdir d; echo two > d/g; mv d/g g; rmdir d; ls -A; cat f g; tail -n 1 .mneme/README > /dev/null; grep -e ^flat -e ^store .mneme/status; grep -o 'at /.* (' .mneme/note"); out != "f\ng\none\ntwo\nstore: notes\nflat: yes\nat "+at+" (\n" {
		t.Errorf("in the mount: %q", out)
	}
	other.Sh(t, "cat f; echo three > f; echo new > new; rm g")
	m.Eventually(t, `test "$(cat f new)" = "$(printf 'three\nnew')" && ! test -e g && test "$(echo *)" = "f new"`)
	if r := m.Try(t, "rmdir ../memory; rm -r .mneme"); r.Code == 0 {
		t.Errorf("the mount is removed: %v", r)
	}
	var status struct {
		Mounts []struct {
			Dir    string
			Stores []map[string]any
		}
	}
	if err := json.Unmarshal([]byte(e.Must(t, "status", "--json")), &status); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, mount := range status.Mounts {
		if mount.Dir == at && len(mount.Stores) == 1 && mount.Stores[0]["store"] == "notes" && mount.Stores[0]["flat"] == "yes" {
			found++
		}
	}
	if found != 1 {
		t.Errorf("status says %+v", status)
	}
	if r := e.Mneme("store", "archive", "notes", "--yes"); r.Code == 0 || !strings.Contains(r.Stderr, at) {
		t.Errorf("archive of a mounted store: %v", r)
	}
	e.Must(t, "unmount", at)
	m.Over = true
	ro := e.Mount(t, "notes:ro", "--flat", "--at="+at)
	if out := ro.Sh(t, `ls; cat f; ! touch x 2> "$HOME/err"; grep -c "Read-only" "$HOME/err"`); out != "f\nnew\nthree\n1\n" {
		t.Errorf("read-only: %q", out)
	}
}
