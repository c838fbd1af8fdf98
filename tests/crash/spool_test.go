package crash

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mneme/tests/harness"
)

// scratchNames are names that programs give to files which are not what they save.
var scratchNames = []string{
	"x.tmp", "tmpabcdefgh", ".x.AbC123", "x.tmp.123.456", "sedAbCd12", "x~", ".x.swp", "#x#", ".goutputstream-X1", "4913", "5036",
}

// saveScratch writes files with scratch names, each in one way: synced, or only closed.
const saveScratch = `
import os, sys
for i, name in enumerate(sys.argv[1:]):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(fd, (name + " holds this").encode())
    if i % 2 == 0: os.fsync(fd)
    os.close(fd)
`

// found says where the text of each file with a scratch name is: in a memory of that
// name, in a conflict of that path, or nowhere.
func found(t *testing.T, e *harness.Env) map[string]string {
	t.Helper()
	found := map[string]string{}
	for path, sum := range e.Listing(t, "notes") {
		if sum == harness.SumOf(path[1:]+" holds this") {
			found[path[1:]] = "memory"
		}
	}
	for _, c := range harness.DecodeLines[harness.KeptConflict](t, e.Must(t, "conflicts", "list", "notes", "--json")) {
		var texts struct {
			Texts struct {
				Yours string `json:"yours"`
			} `json:"texts"`
		}
		texts = harness.DecodeOne(t, e.Must(t, "conflicts", "show", "notes", fmt.Sprint(c.ID), "--json"), texts)
		if texts.Texts.Yours == c.Path[1:]+" holds this" {
			found[c.Path[1:]] += "conflict"
		}
	}
	return found
}

func wantFound(t *testing.T, e *harness.Env, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, found(t, e)); diff != "" {
		t.Errorf("where the texts are (-want +got):\n%s", diff)
	}
}

// TestScratchSurvivesKill kills the daemon when programs have closed or synced files
// with scratch names: the next mount, another session's, has each as a memory or keeps
// it as a conflict, and says so; the one after that has nothing more to say. A mount
// that lives, or is read-only, changes nothing.
func TestScratchSurvivesKill(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, "python3 -c '"+saveScratch+"' '"+strings.Join(scratchNames, "' '")+`'
		echo old > save; echo new > save.tmp; python3 -c 'import os; fd = os.open("save.tmp", os.O_RDWR); os.fsync(fd)'; mv save.tmp save; echo x > gone.tmp; rm gone.tmp`)
	e.Mount(t, "notes").Sh(t, "test -s save")
	m.Kill(t)
	e.Mount(t, "notes:ro").Sh(t, "test ! -e x~")

	memories := map[string]string{}
	for i, name := range scratchNames {
		if memories[name] = "memory"; i >= 5 && i < 9 { // an editor's own
			memories[name] = "conflict"
		}
	}
	next := e.Mount(t, "notes", "--at="+m.At)
	wantFound(t, e, memories)
	said := next.Sh(t, "cat .mneme/errors")
	for name, where := range memories { // a temporary file may have become a memory before the kill
		if where == "conflict" && !strings.Contains(said, "notes:/"+name+"\" ") {
			t.Errorf("%s is a %s, and .mneme/errors does not say so:\n%s", name, where, said)
		}
	}
	e.CheckHistory(t, "notes:/save", m.Session, "created modified")
	before := len(e.Commits(t, "notes"))
	next.Kill(t)
	e.Mount(t, "notes", "--at="+m.At).Sh(t, "test ! -s .mneme/errors; test ! -e gone.tmp")
	if after := len(e.Commits(t, "notes")); after != before {
		t.Errorf("%d commits, and %d after another kill", before, after)
	}
	wantFound(t, e, memories)
}

// TestTwoMountsRecoverOnce starts two mounts at once after the daemon was killed: what
// it has left comes back once.
func TestTwoMountsRecoverOnce(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	names := []string{"a.tmp", "b.tmp", "c.tmp", "d~", "e~"}
	m.Sh(t, "python3 -c '"+saveScratch+"' "+strings.Join(names, " "))
	m.Kill(t)
	const mounts = 3
	done := make(chan bool)
	for range mounts {
		go func() {
			defer func() { done <- true }()
			e.Mneme("mount", "notes", "--background", "--at", fmt.Sprintf("%s/at-%d", e.Dir, harness.MountCount.Next()))
		}()
	}
	for range mounts {
		<-done
	}
	for _, at := range harness.MountsBelow(e.Dir) {
		e.Mneme("unmount", "--at", at)
	}
	wantFound(t, e, map[string]string{"a.tmp": "memory", "b.tmp": "memory", "c.tmp": "memory", "d~": "conflict", "e~": "conflict"})
	e.CheckChanges(t, "notes", "", "created a.tmp", "created b.tmp", "created c.tmp")
}

// TestNothingVanishesAtTheEnd ends a mount in order: texts that programs have written under
// scratch names and left there are in the history, or kept; copies that editors leave of texts in
// the history are not.
func TestNothingVanishesAtTheEnd(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, "python3 -c '"+saveScratch+"' '"+strings.Join(scratchNames, "' '")+`'
		echo one > a; cp a a~; cp a a.~1~; echo two > a; echo b > b; mv b b~; : > empty~; : > .e.swp`)
	m.Stop(t)
	want := map[string]string{}
	for i, name := range scratchNames {
		if want[name] = "memory"; i >= 5 && i < 9 {
			want[name] = "conflict"
		}
	}
	wantFound(t, e, want)
	if list := harness.DecodeLines[harness.KeptConflict](t, e.Must(t, "conflicts", "list", "notes", "--json")); len(list) != 4 {
		t.Errorf("kept: %+v", list)
	}
	if got := e.Must(t, "cat", "notes:/b"); got != "b\n" {
		t.Errorf("b is %q", got)
	}
	var left []string
	for path := range maps.Keys(e.Listing(t, "notes")) {
		left = append(left, path[1:])
	}
	slices.Sort(left)
	if want := []string{".x.AbC123", "4913", "5036", "a", "b", "sedAbCd12", "tmpabcdefgh", "x.tmp", "x.tmp.123.456"}; !slices.Equal(left, want) {
		t.Errorf("the store has %q, want %q", left, want)
	}
}

// TestUnmountNamesWhatIsKept holds that `mneme unmount` says what of a mount is only
// kept, and that the next mount says what it has brought back.
func TestUnmountNamesWhatIsKept(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, "echo draft > '#x#'; echo one > a; cp a a~")
	m.Sh(t, `echo one > b; exec 3<> b; cat <&3; echo theirs | mneme write notes:/b; echo mine >&3 || exec 3>&- || true`)
	m.Sh(t, `echo one > c; exec 3<> c; cat <&3; echo theirs | mneme write notes:/c; echo mine >&3 || exec 3>&- || true`)
	e.Must(t, "conflicts", "dismiss", "notes", "2") // c's, by a person
	m.Over = true
	out := e.Must(t, "unmount", "--at", m.At)
	if !strings.Contains(out, "notes:/#x# of session "+m.Session) || !strings.Contains(out, "conflicts show notes 3") || !strings.Contains(out, "notes:/b of session ") || strings.Count(out, "kept") != 2 || strings.Contains(out, "a~") || strings.Contains(out, "notes:/c") {
		t.Errorf("unmount says:\n%s", out)
	}
	m = e.Mount(t, "notes", "--at="+m.At)
	m.Sh(t, "echo text > y~")
	m.Kill(t)
	m = e.Mount(t, "notes", "--at="+m.At)
	if said := m.Ready.String(); !strings.Contains(said, `"recovered":[{"store":"notes","path":"/y~"`) {
		t.Errorf("mount says:\n%s", said)
	}
	m.Over = true
	if out := e.Must(t, "unmount", "--at", m.At); strings.Contains(out, "kept") {
		t.Errorf("unmount says:\n%s", out)
	}
}

// TestUnmountTakesItsTimeToKeep holds that the part of its five seconds that steps of an unmount
// have not needed is there for those that need more: every kept text is reported.
func TestUnmountTakesItsTimeToKeep(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, "echo draft > '#x#'")
	kept, err := filepath.Glob(filepath.Join(e.Stores, "conflicts", "memstore_*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("there are %q (%v)", kept, err)
	}
	last, err := os.OpenFile(filepath.Join(kept[0], "last"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(last.Fd()), syscall.LOCK_EX) // which gives out the numbers of conflicts
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Over = true
	unmounted := make(chan harness.Result)
	go func() { unmounted <- e.Mneme("unmount", "--at", m.At) }()
	harness.AwaitUntil(t, "the mount has left the directory tree", func() bool { return len(harness.MountsBelow(m.At)) == 0 })
	time.Sleep(700 * time.Millisecond)
	_ = last.Close()
	if r := <-unmounted; r.Code != 0 || !strings.Contains(r.Stdout, "notes:/#x# of session "+m.Session) {
		t.Errorf("unmount: %v", r)
	}
}

// broughtBack reports whether a commit made a memory of the temporary file of a step
// that was to be renamed, and whose mount was killed before.
func broughtBack(commit, sets map[string]string) bool {
	for name, sum := range commit {
		for target, want := range sets {
			dir, base := path.Split(target)
			if len(commit) == 1 && sum == want && strings.HasPrefix(name, dir+"."+base+".tmp.") {
				return true
			}
		}
	}
	return false
}
