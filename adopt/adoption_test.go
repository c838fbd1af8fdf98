package adopt

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/backend"
)

// TestUseCutOff cuts Do off at each step, then Undo at each step. The next Undo restores
// everything, byte for byte.
func TestUseCutOff(t *testing.T) {
	setting := []string{"recorded", "store", "file", "made", "mounted", "edited", "set"}
	for name, test := range map[string]struct {
		agent   string
		prepare func(h *useHome)
		wants   []string
	}{
		"a directory":           {DirAgent, func(*useHome) {}, []string{"recorded", "store", "file", "moved", "made", "mounted"}},
		"a missing directory":   {DirAgent, func(h *useHome) { h.must(os.RemoveAll(h.home + "/notes")) }, []string{"recorded", "store", "made", "mounted"}},
		"a missing place":       {"codex", func(*useHome) {}, []string{"recorded", "store", "made", "mounted"}},
		"a place that is empty": {"codex", func(h *useHome) { h.must(os.Mkdir(h.home+"/.codex", 0o700)) }, []string{"made"}},
		"settings":              {"claude-code", func(*useHome) {}, setting},
		"settings without any":  {"claude-code", func(h *useHome) { h.write(h.project+"/.claude/settings.local.json", "{ }\n") }, setting},
		"no settings":           {"claude-code", func(h *useHome) { h.must(os.Remove(h.project + "/.claude/settings.local.json")) }, setting},
		"no place for settings": {"claude-code", func(h *useHome) { h.must(os.RemoveAll(h.project + "/.claude")) }, append(setting, "made for the setting")},
		"a checkout":            {"letta-files", func(h *useHome) {}, []string{"store", "file", "copied", "moved", "made", "mounted"}},
		"a setting that is set": {"claude-code", func(h *useHome) {
			h.write(h.project+"/.claude/settings.local.json", `{"autoMemoryDirectory" : "~/\u006e"}`)
		}, []string{"set"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newUseHome(t)
			test.prepare(h)
			agent := test.agent
			before := h.snapshot()
			met := map[string]bool{}
			undone := map[string]bool{}
			for n := 0; ; n++ {
				point, err := h.until(h.begin(n), func(u *Adoption) error { return h.do(u, agent) })
				h.must(err)
				met[point] = true
				for m := 0; ; m++ {
					cut, err := h.until(h.begin(m), h.undo)
					if err != nil {
						t.Fatalf("cut off at %q, then at %q: %v", point, cut, err)
					}
					if cut == "" {
						break
					}
					undone[cut] = true
				}
				h.wantAsBefore("cut off at "+point, before)
				if point == "" {
					break
				}
			}
			for _, want := range test.wants {
				if !met[want] {
					t.Errorf("it was cut off at %v, want %s, too", slices.Sorted(maps.Keys(met)), want)
				}
			}
			if len(undone) < 2 {
				t.Errorf("undoing was cut off at %v only", undone)
			}
		})
	}
}

// TestUseImports: files and directories become memories.
func TestUseImports(t *testing.T) {
	h := newUseHome(t)
	_, err := h.until(h.begin(-1), func(u *Adoption) error { return h.do(u, DirAgent) })
	h.must(err)
	lib := h.library(backend.Options{ReadOnly: true})
	defer lib.Close()
	st := h.store(lib, nil)
	var got []string
	for v, err := range st.Tree(t.Context(), "/") {
		h.must(err)
		got = append(got, v.Path)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"/a.md", "/bin", "/d/", "/d/e/", "/d/e/b.md", "/d/run.sh", "/empty/"}, got); diff != "" {
		t.Errorf("the store has\n%s", diff)
	}
	var first map[string]string
	for c, err := range st.Commits(t.Context(), 0) {
		h.must(err)
		if len(c.Versions) > 0 && c.Versions[0].Path == "/d/e/b.md" {
			first = c.Meta
		}
		if len(c.Versions) > 0 && first == nil && !c.Versions[0].IsDir() {
			t.Errorf("%s comes before the oldest file", c.Versions[0].Path)
		}
	}
	want := map[string]string{"agent": "dir", "imported_from": h.home + "/notes/d/e/b.md", "mtime": "2026-03-01T12:00:00.123456789Z"}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the metadata of a file:\n%s", diff)
	}
	if s := st.Info(); s.Limits.Content != "any" {
		t.Errorf("the store holds %q", s.Limits.Content)
	}
}

// TestUseFails: if a step fails, everything is restored.
func TestUseFails(t *testing.T) {
	for _, agent := range []string{DirAgent, "claude-code"} {
		h := newUseHome(t)
		before := h.snapshot()
		h.fails = true
		if _, err := h.until(h.begin(-1), func(u *Adoption) error { return h.do(u, agent) }); err == nil || !strings.Contains(err.Error(), "all is as it was") {
			t.Errorf("%s: %v", agent, err)
		}
		h.wantAsBefore("after an error", before)
		records, err := OpenRecords(true)
		h.must(err)
		if all, err := records.All(); err != nil || len(all) > 0 {
			t.Errorf("%s: there are %d records, %v", agent, len(all), err)
		}
		h.must(records.Close())
	}
}

// TestUseMeetsAnotherSession: a store does not replace the directory if another session has
// changed an imported file.
func TestUseMeetsAnotherSession(t *testing.T) {
	h := newUseHome(t)
	before := h.snapshot()
	u := h.begin(-1)
	changed := false
	u.reached = func(point string) {
		if point == "file" && !changed { // the oldest
			changed = true
			h.commit("/d/e/b.md", "theirs")
		}
	}
	if _, err := h.until(u, func(u *Adoption) error { return h.do(u, DirAgent) }); err == nil || !strings.Contains(err.Error(), "something else there") {
		t.Error(err)
	}
	h.wantAsBefore("after an error", before)
}

// TestUseMeetsChanges: a file that is changed during the import is not lost.
func TestUseMeetsChanges(t *testing.T) {
	for _, test := range []struct{ agent, at string }{
		{DirAgent, "store"}, {DirAgent, "file"}, {DirAgent, "moved"}, {"claude-code", "store"}, {"claude-code", "file"}, {"claude-code", "mounted"},
	} {
		h := newUseHome(t)
		dir := h.found(test.agent).Dir
		file := dir + "/" + map[string]string{DirAgent: "a.md", "claude-code": "build.md"}[test.agent]
		u := h.begin(-1)
		changed := false
		u.reached = func(point string) {
			if point == test.at && !changed {
				changed = true
				h.write(strings.Replace(file, dir, map[bool]string{true: dir + ".before-mneme", false: dir}[point == "moved"], 1), "changed\n")
			}
		}
		_, err := h.until(u, func(u *Adoption) error { return h.do(u, test.agent) })
		text, readErr := os.ReadFile(file)
		if err == nil || readErr != nil || string(text) != "changed\n" {
			t.Errorf("%s, changed at %s: %v; the file holds %q, %v", test.agent, test.at, err, text, readErr)
		}
	}
}

// TestUseMeetsASettingOfOthers: Undo keeps changes of others to the settings.
func TestUseMeetsASettingOfOthers(t *testing.T) {
	h := newUseHome(t)
	file := h.project + "/.claude/settings.local.json"
	use := func() {
		t.Helper()
		_, err := h.until(h.begin(-1), func(u *Adoption) error { return h.do(u, "claude-code") })
		h.must(err)
	}
	use()
	text, err := os.ReadFile(file)
	h.must(err)
	h.write(file, strings.Replace(string(text), `"opus"`, `"haiku"`, 1))
	_, err = h.until(h.begin(-1), h.undo)
	h.must(err)
	if text, err := os.ReadFile(file); err != nil || string(text) != "{\n    \"env\": { \"A\": \"1\" },\n\t\"model\": \"haiku\"\n}" {
		t.Errorf("%q, %v", text, err)
	}
	use()
	text, err = os.ReadFile(file)
	h.must(err)
	own := strings.Replace(string(text), "/mounts/notes", "/elsewhere", 1)
	h.write(file, own)
	if _, err = h.until(h.begin(-1), h.undo); !errors.Is(err, ErrUndoHasWay) || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("undoing a setting that is another's: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != own {
		t.Errorf("%q, %v", text, err)
	}
}

// TestUndoMeetsFiles: Undo keeps files that were made in the directory of the mount.
func TestUndoMeetsFiles(t *testing.T) {
	h := newUseHome(t)
	before := h.snapshot()
	_, err := h.until(h.begin(-1), func(u *Adoption) error { return h.do(u, DirAgent) })
	h.must(err)
	h.write(h.home+"/notes/new", "text")
	if _, err := h.until(h.begin(-1), h.undo); !errors.Is(err, ErrUndoHasWay) {
		t.Errorf("undoing where files are: %v", err)
	}
	h.must(os.Remove(h.home + "/notes/new"))
	_, err = h.until(h.begin(-1), h.undo)
	h.must(err)
	h.wantAsBefore("undone", before)
}

// TestUseRecordFormat: a record of format 1 is read and written without a change. A newer
// format is refused.
func TestUseRecordFormat(t *testing.T) {
	newUseHome(t)
	records, err := OpenRecords(true)
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	want, err := os.ReadFile("testdata/use-record-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(records.root.Name(), "x.json")
	if err := os.WriteFile(name, want, 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := records.All()
	if err != nil || len(all) != 1 {
		t.Fatalf("%d records, %v", len(all), err)
	}
	if err := records.save(all[0]); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(records.root.Name(), all[0].name()))
	if diff := cmp.Diff(string(want), string(got)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if err := os.WriteFile(name, []byte(`{"format": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := records.All(); !errors.Is(err, errNewerRecord) {
		t.Errorf("a newer record: %v", err)
	}
}
