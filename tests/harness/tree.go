package harness

import (
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Command is a mneme command that is not started yet.
func (e *Env) Command(stdin string, args ...string) *exec.Cmd {
	cmd := exec.Command(Binary, args...)
	cmd.Env = e.Environ()
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

// Listing is what a store holds by the command line: path to SHA-256.
func (e *Env) Listing(t testing.TB, store string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, m := range DecodeLines[struct {
		Path string `json:"path"`
		Sum  string `json:"content_sha256"`
	}](t, e.Must(t, "ls", "-r", "--json", store)) {
		if !strings.HasSuffix(m.Path, "/") { // a directory in which nothing is
			files[m.Path] = m.Sum
		}
	}
	return files
}

// Tree is what the first store of a mount shows: path to SHA-256 of the text that is read there.
func (m *Mount) Tree(t testing.TB) map[string]string {
	t.Helper()
	return parseSums(t, m.Sh(t, `find . -type f -print0 | xargs -0r sha256sum`))
}

func parseSums(t testing.TB, text string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for line := range strings.Lines(text) {
		sum, path, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  .")
		if !ok {
			t.Fatalf("sha256sum said %q", line)
		}
		files[path] = sum
	}
	return files
}

// RefreshPatience is how long mounts of one machine may take to see the last
// of a burst of changes.
const RefreshPatience = 3 * time.Second

// Settled waits until all mounts show the same as the command line, and returns
// that. It also checks the history behind it.
func (e *Env) Settled(t testing.TB, store string, mounts ...*Mount) map[string]string {
	t.Helper()
	want := e.Listing(t, store)
	for _, m := range mounts {
		var diff string
		for deadline := time.Now().Add(RefreshPatience); ; time.Sleep(20 * time.Millisecond) {
			r := m.Try(t, `find . -type f -print0 | xargs -0r sha256sum`)
			if r.Code == 0 {
				if diff = cmp.Diff(want, parseSums(t, r.Stdout)); diff == "" {
					break
				}
			} else {
				diff = r.String()
			}
			if time.Now().After(deadline) {
				all := e.Commits(t, store)
				for _, c := range all[max(0, len(all)-60):] {
					for _, v := range c.Versions {
						t.Log(c.Seq, v.Session, v)
					}
				}
				t.Fatalf("%s differs from the store %v after the last change (-store +mount):\n%s\n.mneme/errors:\n%s\nmounts: %v; daemon ended: %v; root: %v",
					m.Dir, RefreshPatience, diff, m.Try(t, "tail -5 .mneme/errors; cat .mneme/status; ls -laiR").Stdout, MountsBelow(m.At), m.Wait(0), m.tryIn(t, m.At, "ls -lai"))
			}
		}
	}
	commits := e.Commits(t, store)
	CheckChains(t, commits)
	if diff := cmp.Diff(want, replay(t, commits)); diff != "" {
		t.Fatalf("the store does not hold what its history says (-store +history):\n%s", diff)
	}
	return want
}

// CheckChains checks that the versions of every memory follow one another.
func CheckChains(t testing.TB, commits []Commit) {
	t.Helper()
	newest := map[string]Version{}
	ids := map[string]bool{}
	for _, c := range commits {
		for _, v := range c.Versions {
			last, known := newest[v.MemoryID]
			switch {
			case v.Seq != c.Seq:
				t.Fatalf("commit %d holds a version of %d: %+v", c.Seq, v.Seq, v)
			case ids[v.ID]:
				t.Fatalf("version id %s stands twice in the history", v.ID)
			case known && v.Parent != last.ID:
				t.Fatalf("%+v has parent %q; the version before it is %s", v, v.Parent, last.ID)
			case !known && (v.Parent != "" || v.Op != "created"):
				t.Fatalf("%+v is the first version of its memory", v)
			case known && (last.Op == "deleted") != (v.Op == "created"):
				t.Fatalf("%+v comes after %+v", v, last)
			}
			ids[v.ID] = true
			newest[v.MemoryID] = v
		}
	}
}

// replay applies a history to an empty store.
func replay(t testing.TB, commits []Commit) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, c := range commits {
		for _, v := range c.Versions {
			switch v.Op {
			case "deleted":
				delete(files, v.Path)
			case "renamed":
				delete(files, v.From)
			}
		}
		for _, v := range c.Versions {
			if v.Op != "deleted" {
				files[v.Path] = v.SHA256
			}
		}
		if err := overlap(files, c); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// overlap says whether a path is both a file and a directory after c.
func overlap(files map[string]string, c Commit) error {
	for _, v := range c.Versions {
		for dir := v.Path[:strings.LastIndexByte(v.Path, '/')]; dir != "" && v.Op != "deleted"; dir = dir[:strings.LastIndexByte(dir, '/')] {
			if _, ok := files[dir]; ok {
				return fmt.Errorf("after commit %d %s and %s are both memories", c.Seq, dir, v.Path)
			}
		}
	}
	return nil
}

// Contents returns every content that a history ever held.
func Contents(commits []Commit) map[string]bool {
	sums := map[string]bool{}
	for _, c := range commits {
		for _, v := range c.Versions {
			sums[v.SHA256] = true
		}
	}
	maps.DeleteFunc(sums, func(sum string, _ bool) bool { return sum == "" })
	return sums
}
