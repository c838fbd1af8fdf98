package conflict

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mneme/tests/harness"
)

// TestConflictsCommand looks at conflicts and settles them, every way there is.
func TestConflictsCommand(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	if out := e.Must(t, "conflicts", "list", "notes"); out != "" {
		t.Errorf("of none: %q", out)
	}
	for _, path := range []string{"a", "b", "c", "d", "e", "f"} {
		m.Lose(t, path, `'1\n2\n3\n'`, "one\n2\n3\n", "1\n2\nthree\n")
	}
	list := harness.DecodeLines[harness.KeptConflict](t, e.Must(t, "conflicts", "list", "notes", "--json"))
	if len(list) != 6 || list[1].ID != 2 || list[1].Path != "/b" || list[1].Session != m.Session || list[1].Base.Seq != 4 ||
		list[1].Theirs.Seq != 5 || !strings.Contains(list[1].Why, `"notes:/b" changed since you read it (version 5 by "user:`) {
		t.Fatalf("listed: %+v", list)
	}
	if out := e.Must(t, "conflicts", "list", "notes"); strings.Count(out, "\n") != 7 {
		t.Errorf("listed:\n%s", out)
	}
	var shown struct {
		harness.KeptConflict
		Texts map[string]*string `json:"texts"`
	}
	if err := json.Unmarshal([]byte(e.Must(t, "conflicts", "show", "notes", "3", "--json")), &shown); err != nil {
		t.Fatal(err)
	}
	if shown.Path != "/c" || *shown.Texts["base"] != "1\n2\n3\n" || *shown.Texts["theirs"] != "one\n2\n3\n" || *shown.Texts["yours"] != "1\n2\nthree\n" {
		t.Errorf("shown: %+v", shown)
	}
	if out := e.Must(t, "conflicts", "show", "notes", "3"); !strings.Contains(out, "-one\n") || !strings.Contains(out, "+three\n") {
		t.Errorf("shown:\n%s", out)
	}
	if out := e.Must(t, "conflicts", "diff", "notes", "3", "--base"); strings.Contains(out, "one") || !strings.Contains(out, "+three\n") {
		t.Errorf("diff:\n%s", out)
	}

	e.Must(t, "conflicts", "resolve", "notes", "1", "--take", "yours")
	e.Must(t, "conflicts", "resolve", "notes", "2", "--take", "theirs")
	e.Must(t, "conflicts", "resolve", "notes", "3", "--take", "merge")
	e.MustIn(t, "edited\n", "conflicts", "resolve", "notes", "4", "--take", "-")
	file := filepath.Join(e.Dir, "edited")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.Must(t, "conflicts", "resolve", "notes", "5", "--take", file)
	e.MustIn(t, "newer\n", "write", "notes:/f")
	if r := e.Mneme("conflicts", "resolve", "notes", "6", "--take", "yours"); r.Code != 4 || !strings.Contains(r.Stderr, "it has changed again") {
		t.Errorf("of an older version: %v", r)
	}
	if r := e.Mneme("conflicts", "resolve", "notes", "6", "--take", "merge"); r.Code != 4 || !strings.Contains(r.Stderr, "the same lines") {
		t.Errorf("what cannot be merged: %v", r)
	}
	if out := e.Must(t, "conflicts", "list", "notes", "--json"); strings.Count(out, "\n") != 1 {
		t.Errorf("left:\n%s", out)
	}
	for path, want := range map[string]string{
		"a": "1\n2\nthree\n", "b": "one\n2\n3\n", "c": "one\n2\nthree\n", "d": "edited\n", "e": "from a file\n", "f": "newer\n",
	} {
		if got := e.Must(t, "cat", "notes:/"+path); got != want {
			t.Errorf("%s holds %q, want %q", path, got, want)
		}
	}
	if r := e.Mneme("conflicts", "show", "notes", "1"); r.Code != 3 {
		t.Errorf("of a settled one: %v", r)
	}
	if r := e.Mneme("conflicts", "resolve", "notes", "6", "--take", "nothing"); r.Code != 2 {
		t.Errorf("no such file: %v", r)
	}
}

// TestConflictsInTheMount looks at conflicts where an agent does.
func TestConflictsInTheMount(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m, other := e.Mount(t, "notes"), e.Mount(t, "notes")
	if out := m.Sh(t, "ls .mneme/conflicts"); out != "" {
		t.Errorf("of none: %q", out)
	}
	m.Lose(t, "f", "one", "two", "mine")
	for _, m := range []*harness.Mount{m, other} {
		out := m.Sh(t, `cd .mneme/conflicts; ls; ls 1; cat 1/base 1/theirs 1/yours; stat -c %s 1/yours; echo; grep -c '"path": "/f"' 1/about
			cmp 1/yours - <<< mine || true; cp 1/yours "$HOME/copy"; cat "$HOME/copy"; echo
			! echo x > 1/yours; ! echo x > 1/more; ! mv 1 3; ! mkdir 2; ls; test ! -e 2; test ! -e 1/nothing`)
		if want := "1\nabout\nbase\ntheirs\nyours\nonetwomine4\n\n3\nmine\n1\n"; out != want {
			t.Errorf("the mount shows %q, want %q", out, want)
		}
	}
	m.Lose(t, "g", "one", "two", "mine too")
	if out := other.Sh(t, "ls .mneme/conflicts; cat .mneme/conflicts/2/yours"); out != "1\n2\nmine too" {
		t.Errorf("another one: %q", out)
	}
	e.Must(t, "conflicts", "resolve", "notes", "1", "--take", "theirs")
	if out := m.Sh(t, "ls .mneme/conflicts; test ! -e .mneme/conflicts/1"); out != "2\n" {
		t.Errorf("a settled one: %q", out)
	}
	e.Must(t, "rm", "notes:/g")
	m.Stop(t)
	other.Stop(t)
	e.Must(t, "store", "delete", "notes", "--yes")
	if left, _ := filepath.Glob(filepath.Join(e.Stores, "conflicts", "memstore_*")); len(left) > 0 {
		t.Errorf("a store was deleted, its conflicts are there: %v", left)
	}
}

// TestConflictsAreSettled looks at what becomes of conflicts and of
// .mneme/errors once their session has written again, or has dismissed them.
func TestConflictsAreSettled(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m, other := e.Mount(t, "notes", "--session=s1"), e.Mount(t, "notes", "--session", "s2")
	const shown = "ls .mneme/conflicts; cat .mneme/errors"
	m.Sh(t, "printf one > f")
	a := m.Agent(t)
	e.MustIn(t, "two", "write", "notes:/f")
	for range 5 { // an agent that only tries again
		a.Must(t, harness.Call{Op: "put", Path: "f.tmp", Text: "mine"})
		if r := a.Do(t, harness.Call{Op: "rename", Path: "f.tmp", To: "f"}); r.OK() {
			t.Fatal("the race was not lost")
		}
	}
	if out := m.Sh(t, "cat .mneme/errors"); strings.Count(out, "\n") != 1 || !strings.Contains(out, "/yours") {
		t.Errorf("after five tries .mneme/errors says:\n%s", out)
	}
	open := strings.Fields(m.Sh(t, "ls .mneme/conflicts"))
	m.Sh(t, "cat f; printf both > f")
	m.Eventually(t, `test -z "$(ls .mneme/conflicts)"`)
	if out := m.Sh(t, shown+"; cat .mneme/conflicts/"+open[0]+"/yours"); out != "mine" {
		t.Errorf("after it has written again: %q", out)
	}
	if out := e.Must(t, "conflicts", "list", "notes"); out != "" {
		t.Errorf("listed: %q", out)
	}
	all := harness.DecodeLines[struct {
		Settled time.Time `json:"settled"`
		How     string    `json:"how"`
	}](t, e.Must(t, "conflicts", "list", "notes", "--all", "--json"))
	if len(all) != len(open) || all[0].Settled.IsZero() || all[0].How == "" {
		t.Errorf("of all: %+v", all)
	}

	m.Lose(t, "g", "one", "two", "mine")
	m.Lose(t, "h", "one", "two", "mine")
	ids := strings.Fields(m.Sh(t, "ls .mneme/conflicts"))
	if r := other.Try(t, "rm -rf .mneme/conflicts/"+ids[0]); r.Code == 0 || !strings.Contains(r.Stderr, "not permitted") {
		t.Errorf("another session dismisses it: %v", r)
	}
	if out := other.Sh(t, "cat .mneme/conflicts/"+ids[0]+"/yours .mneme/errors"); !strings.HasPrefix(out, "mine") || !strings.Contains(out, "another session's") {
		t.Errorf("another session sees %q", out)
	}
	m.Sh(t, "rm -r .mneme/conflicts/"+ids[0]+"; test ! -e .mneme/conflicts/"+ids[0])
	if out := m.Sh(t, shown); !strings.HasPrefix(out, ids[1]+"\n") || strings.Contains(out, ":/g") || !strings.Contains(out, ":/h") {
		t.Errorf("after it was dismissed: %q", out)
	}
	other.Eventually(t, `test "$(ls .mneme/conflicts)" = `+ids[1])
	e.Must(t, "conflicts", "dismiss", "notes", ids[1])
	m.Eventually(t, `test -z "$(ls .mneme/conflicts)"`)
	if out := e.Must(t, "conflicts", "diff", "notes", ids[0]); !strings.Contains(out, "+mine") {
		t.Errorf("a dismissed one: %q", out)
	}

	// The session goes on in another mount.
	m.Lose(t, "i", "one", "two", "mine")
	m.Stop(t)
	again := e.Mount(t, "notes", "--session=s1")
	if out := again.Sh(t, "ls .mneme/conflicts | wc -l; cat i; printf both > i.tmp; mv i.tmp i"); out != "1\ntwo" {
		t.Errorf("in its next mount the session sees %q", out)
	}
	again.Eventually(t, `test -z "$(ls .mneme/conflicts)"`)
}

// TestConflictsExpire mounts a store with two conflicts, one of which is older
// than 30 days.
func TestConflictsExpire(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	for i, age := range []time.Duration{31, 29} {
		m.Lose(t, fmt.Sprint("f", i), "one", "two", "mine")
		found, _ := filepath.Glob(filepath.Join(e.Stores, "conflicts", "*", fmt.Sprint(i+1), "about"))
		if len(found) != 1 {
			t.Fatalf("conflict %d is in %v", i+1, found)
		}
		data, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		var about map[string]any
		if err := json.Unmarshal(data, &about); err != nil {
			t.Fatal(err)
		}
		about["time"] = time.Now().Add(-age * 24 * time.Hour)
		if data, err = json.Marshal(about); err == nil {
			err = os.WriteFile(found[0], data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m.Stop(t)
	other := e.Mount(t, "notes")
	other.Eventually(t, "test ! -e .mneme/conflicts/1")
	if list := harness.DecodeLines[harness.KeptConflict](t, e.Must(t, "conflicts", "list", "notes", "--json")); len(list) != 1 || list[0].ID != 2 {
		t.Errorf("left: %+v", list)
	}
}

// TestTerminateKeepsWhatCannotBeCommitted ends a daemon that holds text for a
// store which takes none any more.
func TestTerminateKeepsWhatCannotBeCommitted(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, "echo one > f")
	c := m.Child(t, "hold", "file", filepath.Join(m.Dir, "f"))
	c.WaitFirstLine(t, harness.ScriptPatience)
	e.Must(t, "store", "archive", "notes", "--yes", "--force")
	m.Stop(t)
	c.Kill(t)
	list := harness.DecodeLines[harness.KeptConflict](t, e.Must(t, "conflicts", "list", "notes", "--json"))
	if len(list) != 1 || list[0].Path != "/f" || !strings.Contains(list[0].Why, "was not saved") {
		t.Fatalf("kept: %+v", list)
	}
	if out := e.Must(t, "conflicts", "diff", "notes", "1"); !strings.Contains(out, "+not closed yet\n") {
		t.Errorf("kept:\n%s", out)
	}
}

// TestConflictNamesWhoChanged: a session that has renamed what another one changed is
// told of the other one, not of itself.
func TestConflictNamesWhoChanged(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, `mkdir q; echo one > q/f; exec 3<> q/f; cat <&3; echo theirs | mneme write notes:/q/f; mv q qq; echo mine >&3 || true; exec 3>&- || true`)
	if errors := m.Sh(t, "cat .mneme/errors"); !strings.Contains(errors, `"notes:/qq/f" changed since you read it`) || !strings.Contains(errors, `by "user:`) || strings.Contains(errors, "by session "+m.Session) {
		t.Errorf("the errors are %q, want them to name the person", errors)
	}
}
