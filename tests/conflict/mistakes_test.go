package conflict

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mneme/internal/testing/turn"
	"mneme/tests/harness"
)

// A mistake is put into the source of mneme before it is built: each edit puts
// code in front of a line of it, or in its place. It is made only while the file
// "mistake" in the daemon's home has its name.
type mistake struct {
	name  string
	edits []edit
}

type edit struct {
	file string
	line string // once in the file; what the edit puts in its place ends with it unless it has a %s
	code string // mistaken() reports whether the mistake must be made
}

var mistakes = []mistake{
	{"condition skipped", []edit{{"memory/write.go", "	switch c.Action {\n	case versionlog.Put:\n		err = s.Check", `
	if mistaken() {
		out.Expect = versionlog.ExpectAny()
	}
`}}},
	{"base taken at open", []edit{{"session/knowledge.go", "	if !k.known || head == nil {", `
	if mistaken() {
		return false
	}
`}}},
	{"stale head at open", []edit{
		{"fusefs/follow.go", "	tip, err := s.tip(ctx)\n	if err != nil || s.tree.Shown", `
	if mistaken() {
		return nil
	}
`},
		{"fusefs/follow.go", "		if !s.session.AwaitOwn(ctx, c.Key) {", `
		if mistaken() {
			time.Sleep(5 * time.Millisecond)
		}
`},
	}},
	{"flush of what is clean commits", []edit{
		{"fusefs/save.go", "	if !st.dirty || m.IsRemovedLocked() || t.why.alone() && st.writers > 1 {", `
	if !st.dirty && !mistaken() || m.IsRemovedLocked() || t.why.alone() && st.writers > 1 {
%.0s`},
		{"fusefs/save.go", "	if t.upTo != nil && t.upTo.changes <= st.committed { // by another close", `
	if t.upTo != nil && t.upTo.changes <= st.committed && !mistaken() {
%.0s`},
		{"fusefs/save.go", "	if !st.appendOnly && !d.Unchanged && (!st.fresh || isMapped) {", `
	d.Unchanged = d.Unchanged && !mistaken()
`},
		{"versionlog/build.go", "	if c.satisfied(head) || b.staying[c.Path] {", `
	if (c.satisfied(head) || b.staying[c.Path]) && !mistaken() {
%.0s`},
	}},
	{"append not rebased", []edit{{"fusefs/save.go", "		content = slices.Concat(content, st.appended)", `
		if mistaken() {
			content = st.data[:len(st.data)-len(st.appended)]
		}
`}}},
	{"pages not invalidated", []edit{{"fusefs/telling.go", "	if usedLocked(n) {", `
	if usedLocked(n) && !mistaken() {
%.0s`}}},
	{"negative entry kept", []edit{{"fusefs/tree/apply.go", "		t.told.NameLocked(dir, name, n)", `
		if mistaken() {
			return
		}
`}}},
	{"rename without a version", []edit{{"fusefs/renamefile.go", "	change := memory.Change{Action: versionlog.Rename", `
	if mistaken() {
		m.s.fs.mu.Lock()
		defer m.s.fs.mu.Unlock()
		m.s.tree.TakeLocked(m.Move)
		return nil
	}
`}}},
	{"removal only acknowledged", []edit{{"fusefs/unlink.go", "	err := s.commit([]memory.Change{{Action: versionlog.Remove", `
	if mistaken() {
		s.fs.mu.Lock()
		defer s.fs.mu.Unlock()
		s.fs.unlinkedLocked(n)
		return nil
	}
`}}},
	{"close before the commit", []edit{{"fusefs/flush.go", "		if byAnother, upTo := fs.committedByAnotherClose(h, thread); !byAnother {", `
	if mistaken() {
		return fuse.OK
	}
`}}},
	{"conflict not kept", []edit{{"session/lost.go", "	if s.opts.Conflicts == nil {", `
	if mistaken() {
		return NotKept, what + "; " + redo
	}
`}}},
	{"conflict makes the winner known", []edit{{"session/save.go", "	lost := s.lostError(ctx, &l)", `
	if l.Theirs != nil && mistaken() {
		s.known.Set(l.Path, Of(l.Theirs))
	}
`}}},
	{"taken back", []edit{{"session/judge.go", "	if len(changes) == 0 {", `
	if mistaken() {
		return nil
	}
`}}},
	{"refused for ever", []edit{{"session/knowledge.go", "	switch {\n	case own:", `
	if mistaken() {
		next.meant = false
	}
`}}},
}

// buildMistaken builds a mneme that can make all mistakes.
func buildMistaken(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, sources, packages := t.TempDir(), map[string]string{}, map[string]bool{}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for _, m := range mistakes {
		for _, e := range m.edits {
			if sources[e.file] == "" {
				text, err := os.ReadFile(filepath.Join(root, e.file))
				if err != nil {
					t.Fatal(err)
				}
				sources[e.file] = string(text)
			}
			if n := strings.Count(sources[e.file], e.line); n != 1 {
				t.Fatalf("mistake %q: %s has this %d times, want once:\n%s", m.name, e.file, n, e.line)
			}
			code := strings.ReplaceAll(e.code, "mistaken()", fmt.Sprintf("mistaken(%q)", m.name))
			if before, ok := strings.CutSuffix(code, "%.0s"); ok {
				code = before
			} else {
				code += e.line
			}
			sources[e.file] = strings.Replace(sources[e.file], e.line, strings.TrimPrefix(code, "\n"), 1)
			packages[filepath.Dir(e.file)] = true
		}
	}
	for name := range packages {
		sources[filepath.Join(name, "mistaken.go")] = "package " + filepath.Base(name) + `

import (
	"os"
	"path/filepath"
)

func mistaken(name string) bool {
	text, _ := os.ReadFile(filepath.Join(os.Getenv("HOME"), "mistake"))
	return string(text) == name
}
`
	}
	for name, text := range sources {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(root, name)] = file
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	mistaken := filepath.Join(dir, "mneme")
	build := exec.Command("go", "build", "-buildvcs=false", "-overlay", file, "-o", mistaken, "mneme/cmd/mneme")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return mistaken
}

// TestMountHistoryCheckerCatches: each mistake that a mount could make must be
// seen before long (how soon, chance decides: calls have to meet), and there
// must be none without one.
func TestMountHistoryCheckerCatches(t *testing.T) {
	e := harness.NewEnv(t)
	e.Daemon = buildMistaken(t)
	h := newMountHistory(t, e, 2)
	number := 0
	play := func(t *testing.T, name string) []string {
		h.begin(t, number)
		file := filepath.Join(e.Home, "mistake")
		if err := os.WriteFile(file, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(file)
		number++
		return h.play(t, number-1, 40, 1<<40)
	}
	for range 3 {
		if wrong := play(t, "none"); wrong != nil {
			t.Fatal(strings.Join(wrong, "\n"))
		}
	}
	for i, m := range mistakes {
		if !turn.Due(i, 6) {
			continue
		}
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			defer func(patience time.Duration) { h.patience = patience }(h.patience)
			h.patience = time.Second // which is enough for a fault that never comes
			for try := range 200 {
				if wrong := play(t, m.name); wrong != nil {
					t.Logf("found in episode %d: %s", try+1, wrong[0])
					return
				}
			}
			t.Error("the checker found nothing")
		})
	}
}
