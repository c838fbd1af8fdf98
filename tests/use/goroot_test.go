package use

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mneme/tests/harness"
)

// goSources copies the text files up to the size limit of the Go toolchain's
// own sources and documentation to dir, at most limit of them, spread evenly,
// and returns their paths in byte order.
func goSources(t testing.TB, dir string, limit int) []string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := strings.TrimSpace(string(out))
	if root, err = filepath.EvalSymlinks(root); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, top := range []string{"src", "doc"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Size() <= 102400 {
				found = append(found, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(found)
	step := max(1, len(found)/limit)
	var taken []string
	for i := 0; i < len(found) && len(taken) < limit; i += step {
		data, err := os.ReadFile(found[i])
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(data) {
			continue
		}
		path := strings.TrimPrefix(found[i], root)
		to := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			t.Fatal(err)
		}
		taken = append(taken, path)
	}
	return taken
}

// long is sh for a script that takes its time.
func long(t testing.TB, m *harness.Mount, script string, args ...string) string {
	t.Helper()
	start := time.Now()
	r := m.Env.Run(t, harness.LongPatience, "", m.Abort, "bash", append([]string{"-euo", "pipefail", "-c", "cd -- \"$0\"\n" + script, m.Dir}, args...)...)
	if r.Code != 0 {
		t.Fatalf("script:\n%s\n%v", script, r)
	}
	t.Logf("%6.2fs %s", time.Since(start).Seconds(), script)
	return r.Stdout
}

// Real text, thousands of files in nested directories: copied in, compared,
// searched, edited, mounted again, with every version of every file in the
// history. With the race detector it is hundreds.
func TestGoSources(t *testing.T) {
	e := harness.NewEnv(t)
	limit := harness.Times(1500, 1<<30)
	if harness.Raced(t) {
		limit = harness.Times(500, 1<<30)
	}
	local := filepath.Join(e.Dir, "local")
	paths := goSources(t, local, limit)
	if len(paths) < min(limit*2/3, 1000) {
		t.Fatalf("only %d files in GOROOT", len(paths))
	}
	t.Logf("%d files", len(paths))
	history := map[string][]string{} // path in the store to the SHA-256 of its versions
	note := func(paths []string) {
		for _, path := range paths {
			data, err := os.ReadFile(filepath.Join(local, path))
			if err != nil {
				t.Fatal(err)
			}
			history["/go"+path] = append(history["/go"+path], harness.SumOf(string(data)))
		}
	}

	m := e.Mount(t, "notes")
	long(t, m, `cp -r "$1" go`, local)
	note(paths)
	long(t, m, compareTrees, local)
	long(t, m, searchTrees, local, e.Dir)

	// Edited in two rounds, in the same way beside the mount.
	edited := editable(t, local, paths)
	if len(edited) < 200 {
		t.Fatalf("only %d files to edit", len(edited))
	}
	for _, round := range [][]string{edited, edited[:len(edited)/4]} {
		list := filepath.Join(e.Dir, "list")
		if err := os.WriteFile(list, []byte("."+strings.Join(round, "\n.")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{local, filepath.Join(m.Dir, "go")} {
			long(t, m, `cd -- "$1"; xargs -a "$2" sed -i "1i a line that was not there
s/the/THE/g"`, dir, list)
		}
		note(round)
		long(t, m, compareTrees, local)
	}

	m.Stop(t)
	m = e.Mount(t, "notes")
	long(t, m, compareTrees, local)
	long(t, m, searchTrees, local, e.Dir)
	checkEveryVersion(t, e, history)
	for _, path := range []string{edited[0], edited[len(edited)-1]} {
		for i, v := range e.Versions(t, "notes:/go"+path) {
			if got := harness.SumOf(e.Must(t, "cat", "notes:/go"+path, "--version", v.ID)); got != history["/go"+path][i] {
				t.Errorf("version %d of %s reads back as %s", i+1, path, got)
			}
		}
	}
}

const compareTrees = `diff -r "$1" go`

// searchTrees compares what grep finds, to files: with nothing but a terminal or
// /dev/null to write to, grep may stop early.
const searchTrees = `for word in "context.Context" "func Test.*T)" "[Ee]rror handling" "^$" "xyzzy"; do
	(cd "$1" && grep -rn -e "$word" . | LC_ALL=C sort > "$2/want") || true
	(cd go && grep -rn -e "$word" . | LC_ALL=C sort > "$2/got") || true
	cmp "$2/want" "$2/got"
done`

// editable picks hundreds of the files: those with something in them, and not
// so much that a line more is too much.
func editable(t *testing.T, dir string, paths []string) []string {
	t.Helper()
	var picked []string
	for i := 0; i < len(paths); i += max(1, len(paths)/600) {
		info, err := os.Stat(filepath.Join(dir, paths[i]))
		if err != nil {
			t.Fatal(err)
		}
		if size := info.Size(); size > 0 && size < 100_000 {
			picked = append(picked, paths[i])
		}
	}
	return picked
}

// checkEveryVersion checks that the history of the store is exactly that.
func checkEveryVersion(t *testing.T, e *harness.Env, want map[string][]string) {
	t.Helper()
	commits := e.Commits(t, "notes")
	harness.CheckChains(t, commits)
	got := map[string][]string{}
	n := 0
	for _, c := range commits {
		for _, v := range c.Versions {
			op := "modified"
			if got[v.Path] == nil {
				op = "created"
			}
			if v.Op != op {
				t.Errorf("%s: version %d is %s, want %s", v.Path, v.Seq, v.Op, op)
			}
			got[v.Path] = append(got[v.Path], v.SHA256)
			n++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	t.Logf("%d versions of %d files", n, len(got))
}
