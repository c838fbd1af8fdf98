package history_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mneme/history"
	"mneme/versionlog"
)

func TestPatch(t *testing.T) {
	side := func(path, text string) history.Side {
		return history.Side{Path: path, Label: "notes:" + path + "@7", Text: []byte(text)}
	}
	none := history.Side{}
	for _, test := range []struct {
		name    string
		a, b    history.Side
		renamed bool
		want    string
	}{
		{"nothing", side("/a", "x"), side("/a", "x"), true, ""},
		{"two that are equal", side("/a", "x"), side("/b", "x"), false, ""},
		{"modified", side("/a", "x\n"), side("/a", "y"), true, "diff --git a/a b/a\n--- a/a\tnotes:/a@7\n+++ b/a\tnotes:/a@7\n@@ -1 +1 @@\n-x\n+y\n\\ No newline at end of file\n"},
		{"new", none, side("/a", "x\n"), true, "diff --git a/a b/a\nnew file mode 100644\n--- /dev/null\n+++ b/a\tnotes:/a@7\n@@ -0,0 +1 @@\n+x\n"},
		{"new and empty", none, side("/a", ""), true, "diff --git a/a b/a\nnew file mode 100644\nindex 0000000..e69de29\n"},
		{"deleted", side("/a", "x\n"), none, true, "diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\tnotes:/a@7\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"},
		{"renamed", side("/a", "x\n"), side("/d/b", "x\n"), true, "diff --git a/a b/d/b\nsimilarity index 100%\nrename from a\nrename to d/b\n"},
		{"binary", side("/a", "x\x00"), side("/a", "y"), true, "Binary files a/a and b/a differ\n"},
		{"new binary", none, side("/a", "x\x00"), true, "Binary files /dev/null and b/a differ\n"},
		{"deleted binary", side("/a", "x\x00"), none, true, "Binary files a/a and /dev/null differ\n"},
		{"renamed and changed binary", side("/a", "x\x00"), side("/b", "y\x00"), true, "Binary files a/a and b/b differ\n"},
		{"renamed binary", side("/a", "x\x00"), side("/b", "x\x00"), true, "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n"},
		{"quoted", side(`/a"\`, "x\n"), none, true, "diff --git \"a/a\\\"\\\\\" \"b/a\\\"\\\\\"\ndeleted file mode 100644\n--- \"a/a\\\"\\\\\"\tnotes:/a\"\\@7\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"},
	} {
		if got := history.Patch(test.a, test.b, test.renamed); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

// TestPatchesApply: git and patch make the later state of a store of the earlier one.
func TestPatchesApply(t *testing.T) {
	f := newFixture(t, nil)
	any := versionlog.ExpectAny()
	random := rand.New(rand.NewPCG(3, 4))
	long := func() string {
		var text strings.Builder
		for range 200 {
			text.WriteString(strings.Repeat("x", random.IntN(4)) + "\n")
		}
		return text.String()
	}
	f.Put("/same", "same\n", any)
	f.Put("/edited", "a\nb\r\nc", any)
	f.Put("/long", long(), any)
	f.Put("/name with spaces", "1\n", any)
	f.Put(`/d/quote"and\`, "1\n", any)
	f.Put("/d/émigré", "1\n", any)
	f.Put("/gone", "1\n", any)
	f.Put("/old-name", "1\n2\n3\n4\n5\n6\n7\n", any)
	f.Put("/as-it-is", "1\n", any)
	f.Put("/emptied", "1\n", any)
	f.Put("/filled", "", any)
	if _, err := f.MakeDir(t.Context(), "/hollow", any, nil); err != nil {
		t.Fatal(err)
	}
	before, err := f.Tip(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.Put("/edited", "a\nB\nc\n", any)
	f.Put("/long", long(), any)
	f.Put("/name with spaces", "2", any)
	f.Put(`/d/quote"and\`, "2\n", any)
	f.Put("/d/émigré", "--- a\n+++ b\n@@ -1 +1 @@\n", any)
	f.Delete("/gone")
	f.Move("/old-name", "/sub/new name")
	f.Put("/sub/new name", "1\n2\n3\nfour\n5\n6\n7\n", any)
	f.Move("/as-it-is", "/moved")
	f.Put("/emptied", "", any)
	f.Put("/filled", "\n", any)
	f.Put("/new/one", "1\n", any)
	f.Put("/new/empty", "", any)
	after, err := f.Tip(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct {
		name     string
		from, to uint64
	}{{"forth", before.Seq, after.Seq}, {"back", after.Seq, before.Seq}, {"from nothing", 0, after.Seq}} {
		patch := f.patchBetween(way.from, way.to)
		for _, tool := range [][]string{{"git", "apply", "-"}, {"patch", "-p1", "-s"}} {
			if _, err := exec.LookPath(tool[0]); err != nil {
				t.Logf("%s is not there", tool[0])
				continue
			}
			dir := t.TempDir()
			f.checkOut(way.from, dir)
			cmd := exec.Command(tool[0], tool[1:]...)
			cmd.Dir, cmd.Stdin = dir, strings.NewReader(patch)
			cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s %s: %v\n%s\n%s", way.name, tool[0], err, out, patch)
				continue
			}
			want := t.TempDir()
			f.checkOut(way.to, want)
			if out, err := exec.Command("diff", "-r", want, dir).CombinedOutput(); err != nil {
				t.Errorf("%s %s: %v\n%s\n%s", way.name, tool[0], err, out, patch)
			}
		}
	}
}

// TestPatchBesideBinary: a file that is not text, before and after one that is, keeps neither tool
// from changing that one, and is left alone.
func TestPatchBesideBinary(t *testing.T) {
	side := func(path, text string) history.Side { return history.Side{Path: path, Label: path, Text: []byte(text)} }
	text := history.Patch(side("/m", "before"), side("/m", "after\n"), false)
	for _, binary := range [][2]history.Side{
		{side("/b", "x\x00"), side("/b", "y\x00")}, {side("/b", "x\x00"), side("/b", "text\n")}, {side("/b", "text\n"), side("/b", "x\x00")},
		{{}, side("/c", "x\x00")}, {side("/b", "x\x00"), {}}, {side("/b", "x\x00"), side("/c", "y\x00")},
	} {
		differ := history.Patch(binary[0], binary[1], true)
		for _, tool := range [][]string{{"git", "apply", "-"}, {"patch", "-p1", "-s"}} {
			if _, err := exec.LookPath(tool[0]); err != nil {
				t.Logf("%s is not there", tool[0])
				continue
			}
			dir := t.TempDir()
			for name, text := range map[string]string{"m": "before", "b": string(binary[0].Text)} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(tool[0], tool[1:]...)
			cmd.Dir, cmd.Stdin = dir, strings.NewReader(differ+text+differ)
			cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
			out, err := cmd.CombinedOutput()
			changed, _ := os.ReadFile(filepath.Join(dir, "m"))
			same, _ := os.ReadFile(filepath.Join(dir, "b"))
			_, errNew := os.Stat(filepath.Join(dir, "c"))
			if err != nil || string(changed) != "after\n" || string(same) != string(binary[0].Text) || !os.IsNotExist(errNew) {
				t.Errorf("%s: %v, %s; m is %q, b is %q, c: %v\n%s", tool[0], err, out, changed, same, errNew, differ)
			}
		}
	}
}

func (f *fixture) patchBetween(from, to uint64) string {
	f.T.Helper()
	a, errA := f.At(f.T.Context(), from)
	b, errB := f.At(f.T.Context(), to)
	if errA != nil || errB != nil {
		f.T.Fatal(errA, errB)
	}
	all, err := history.Differences(f.T.Context(), f.Store, a, b, "/")
	if err != nil {
		f.T.Fatal(err)
	}
	var text strings.Builder
	for p, err := range history.Patches(f.T.Context(), f.Store, all) {
		if err != nil {
			f.T.Fatal(err)
		}
		text.WriteString(p.Text)
	}
	return text.String()
}

// checkOut writes the files of a state into a directory.
func (f *fixture) checkOut(seq uint64, dir string) {
	f.T.Helper()
	state, err := f.At(f.T.Context(), seq)
	if err != nil {
		f.T.Fatal(err)
	}
	for v, err := range state.Heads(f.T.Context(), "/", "") {
		if err != nil {
			f.T.Fatal(err)
		}
		if v.IsDir() {
			continue
		}
		data, err := f.Content(f.T.Context(), v)
		file := filepath.Join(dir, v.Path)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(file), 0o755)
		}
		if err == nil {
			err = os.WriteFile(file, data, 0o644)
		}
		if err != nil {
			f.T.Fatal(err)
		}
	}
}

// TestDifferences: what differs, in the order of paths, and renames as one.
func TestDifferences(t *testing.T) {
	f := newFixture(t, nil)
	any := versionlog.ExpectAny()
	for _, path := range []string{"/a", "/d/b", "/d/c", "/e"} {
		f.Put(path, path, any)
	}
	f.Move("/d/b", "/z")
	f.Move("/a", "/swap")
	f.Move("/e", "/a")
	f.Move("/swap", "/e")
	f.Put("/d/new", "n", any)
	f.Put("/d/c", "c", any)
	f.Delete("/d/c")
	list := func(path string, from, to uint64) string {
		a, errA := f.At(t.Context(), from)
		b, errB := f.At(t.Context(), to)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		all, err := history.Differences(t.Context(), f.Store, a, b, path)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for _, d := range all {
			if d.From != nil {
				out.WriteString(d.From.Path)
			}
			out.WriteByte('>')
			if d.To != nil {
				out.WriteString(d.To.Path)
			}
			out.WriteByte(' ')
		}
		return strings.TrimSpace(out.String())
	}
	for _, test := range []struct {
		path     string
		from, to uint64
		want     string
	}{
		{"/", 4, 11, "/a>/a /d/c> >/d/new /e>/e /d/b>/z"},
		{"/d", 4, 11, "/d/b> /d/c> >/d/new"},
		{"/d/new", 4, 11, ">/d/new"},
		{"/", 11, 11, ""},
		{"/", 0, 2, ">/a >/d/b"},
		{"/nix", 0, 11, ""},
	} {
		if got := list(test.path, test.from, test.to); got != test.want {
			t.Errorf("%s from %d to %d: %s, want %s", test.path, test.from, test.to, got, test.want)
		}
	}
}
