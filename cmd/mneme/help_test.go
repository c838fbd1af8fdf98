package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/view"
	"mneme/memory"
	"mneme/server/access"
	"mneme/versionlog"
)

// example finds the lines of a help that are commands; what is said of them in
// brackets behind is not part of them.
var example = regexp.MustCompile(`(?m)^    ((?:.*[|(] ?)?mneme .*?)(?:  +\(.*\))?$`)

// elsewhere matches examples that take more than a store of this machine. They
// are only parsed.
var elsewhere = regexp.MustCompile(`aws://|https://|mneme (un)?mount|mneme serve|mneme use|mneme conflicts \w+ notes|--rebuild-index|memver_|memstore_|mneme backup|/backups`)

// TestHelpExamples runs the examples of every command's help, in stores that
// have what they speak of.
func TestHelpExamples(t *testing.T) {
	home := t.TempDir()
	makeExampleHome(t, home)
	parser, err := newParser(t.Context(), &cli{}, app.New(os.Stdin, os.Stdout, os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, leaf := range parser.Model.Leaves(false) {
		help, ok := leaf.Target.Addr().Interface().(kong.HelpProvider)
		if !ok {
			continue
		}
		var run []string
		for _, m := range example.FindAllStringSubmatch(help.Help(), -1) {
			seen++
			if elsewhere.MatchString(m[1]) {
				parseExample(t, m[1])
			} else {
				run = append(run, m[1])
			}
		}
		if script := strings.Join(run, "\n"); script != "" {
			data := filepath.Join(home, strings.NewReplacer(" ", "-", "(", "", ")", "").Replace(leaf.Path())) // which has other names in brackets
			copyStores := fmt.Sprintf("cp -r %s/stores %s", home, data)
			if leaf.Name == "create" && leaf.Parent.Name == "store" {
				copyStores = ":"
			}
			if out, err := shellExample(home, "MNEME_URL=file://"+data, copyStores+"\n"+script); err != nil {
				t.Errorf("%s\n%s%v", script, out, err)
			}
		}
	}
	if seen < 30 {
		t.Errorf("there are only %d examples; does the pattern still find them?", seen)
	}
}

func shellExample(home, variable, script string) (string, error) {
	cmd := exec.Command("sh", "-e", "-c", script)
	cmd.Dir = home
	cmd.Env = []string{variable, "HOME=" + home, "PATH=" + home + "/bin:" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// parseExample makes sure that mneme understands an example. Ids in it have to
// be of the right form.
func parseExample(t *testing.T, line string) {
	t.Helper()
	out, err := shellExample(t.TempDir(), "X=", `mneme() { for word; do printf '%s\n' "$word"; done; }`+"\n"+line+" </dev/null | cat")
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	args := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if strings.Contains(line, ">") { // the words went to the file
		return
	}
	parser, err := newParser(t.Context(), &cli{}, app.New(os.Stdin, os.Stdout, os.Stderr))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
	for _, arg := range args {
		if strings.HasPrefix(arg, view.VersionPrefix) {
			if _, _, err := versionlog.LocateVersion(arg); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

// makeExampleHome makes the stores and files that examples speak of, and a
// directory bin with mneme.
func makeExampleHome(t *testing.T, home string) {
	t.Helper()
	self, err := os.Executable()
	if err == nil {
		err = os.Mkdir(filepath.Join(home, "bin"), 0o755)
	}
	if err == nil {
		err = os.Symlink(self, filepath.Join(home, "bin", "mneme"))
	}
	for name, text := range map[string]string{
		"report.md": "report", "plan.md": "plan", "plan2.md": "plan 2", "edited.md": "edited",
		"batch.json": `{"changes": [{"action": "put", "path": "/b.md", "content": "text"}]}`,
	} {
		if err == nil {
			err = os.WriteFile(filepath.Join(home, name), []byte(text), 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	url := "file://" + filepath.Join(home, "stores")
	lib, err := app.OpenLibrary(t.Context(), &url, app.Creating)
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	for _, name := range []string{"docs", "scratch", "notes"} {
		if _, err := lib.CreateStore(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := access.OpenRegistry(t.Context(), lib.Library, &access.RegistryOptions{Author: &memory.Author{Actor: app.UserActor()}})
	if err == nil {
		defer keys.Close()
		_, _, err = keys.CreateKey(t.Context(), access.Key{Label: "laptop", Everywhere: access.Write})
	}
	if err != nil {
		t.Fatal(err)
	}
	notes, err := app.OpenStore(t.Context(), lib, "notes", app.Writing)
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"/todo.md", "/todo.md", "/todo.md", "/todo.md", "/todo.md", "/todo.md", "/todo.md", "/todo.md", "/todo.md",
		"/old.md", "/drafts/a.md", "/projects/x.md", "/plan.md"}
	for i, path := range paths {
		if _, err := notes.Write(t.Context(), path, fmt.Append(nil, i), versionlog.ExpectAny()); err != nil {
			t.Fatal(err)
		}
	}
	agents, err := lib.Open(t.Context(), notes.Info().ID, memory.SessionAuthor("sesn_2"))
	if err == nil {
		_, err = agents.Write(t.Context(), "/agent.md", []byte("by an agent"), versionlog.ExpectAbsent())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := notes.Write(t.Context(), "/plan.md", []byte("Ship on Friday.\n"), versionlog.ExpectAny()); err != nil {
		t.Fatal(err)
	}
	leaks, err := lib.Open(t.Context(), notes.Info().ID, memory.SessionAuthor("sesn_7"))
	for _, text := range []string{"hunter2", "hunter3", "clean"} {
		if err == nil {
			_, err = leaks.Write(t.Context(), "/drafts/b.md", []byte(text), versionlog.ExpectAny())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
