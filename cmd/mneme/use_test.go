package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mneme/backend"
	"mneme/daemon"
	"mneme/internal/agentdirs"
	"mneme/memory"
	"mneme/versionlog"
)

// useHome is a home with an agent's directory, and what `mneme use` would take for it.
type useHome struct {
	*testing.T
	home, project string
	fails         bool // mounting does
	named         bool // the store is
}

func newUseHome(t *testing.T) *useHome {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &useHome{T: t, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project")}
	for name, value := range map[string]string{"HOME": h.home, "XDG_STATE_HOME": dir + "/state", "XDG_DATA_HOME": dir + "/data", "XDG_CACHE_HOME": dir + "/cache", urlVariable: ""} {
		t.Setenv(name, value)
	}
	for name, text := range map[string]string{
		"home/.claude/projects/" + projectKeyOf(h.project) + "/memory/MEMORY.md": "# Index\n",
		"home/.claude/projects/" + projectKeyOf(h.project) + "/memory/build.md":  "make\n",
		"home/notes/a.md": "a\n", "home/notes/d/run.sh": "#!/bin/sh\n", "home/notes/d/e/b.md": "b\n", "home/notes/empty/.keep": "",
		"home/notes/bin": "\xff\x00",
		"home/.letta/agents/a1/memory/system/persona.md": "me\n", "home/.letta/agents/a1/memory/.git/HEAD": "ref: refs/heads/main\n",
		"home/.letta/agents/a1/memory/.git/hooks/pre-commit": "#!/bin/sh\n", "home/.letta/agents/a1/memory/.git/refs/heads/main": "1\n",
		"project/.git/HEAD":                   "ref: refs/heads/main\n",
		"project/.claude/settings.local.json": "{\n    \"env\": { \"A\": \"1\" },\n\t\"model\": \"opus\"\n}",
	} {
		h.write(filepath.Join(dir, name), text)
	}
	h.must(os.Remove(h.home + "/notes/empty/.keep"))
	h.must(os.Chmod(h.home+"/notes/d/run.sh", 0o750))
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	h.must(os.Chtimes(h.home+"/notes/d/e/b.md", at, at))
	h.must(os.Chtimes(h.home+"/notes/d", at, at))
	return h
}

func projectKeyOf(dir string) string {
	return strings.NewReplacer("/", "-", "_", "-", ".", "-").Replace(dir)
}

func (h *useHome) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *useHome) write(path, text string) {
	h.Helper()
	h.must(os.MkdirAll(filepath.Dir(path), 0o755))
	h.must(os.WriteFile(path, []byte(text), 0o640))
}

// snapshot is all that is in the home and the project, byte for byte.
func (h *useHome) snapshot() map[string]string {
	h.Helper()
	all := map[string]string{}
	for _, dir := range []string{h.home, h.project} {
		h.must(filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := os.Lstat(path)
			if err != nil {
				return err
			}
			text := ""
			if info.Mode().IsRegular() {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				text = string(data)
			}
			below, _ := filepath.Rel(filepath.Dir(h.home), path)
			when := ""
			if strings.HasPrefix(below, "home/notes") || strings.Contains(below, "/memory") {
				when = fmt.Sprint(info.ModTime().UnixNano(), info.Sys().(*syscall.Stat_t).Ino)
			}
			all[below] = fmt.Sprintf("%v %s %q", info.Mode(), when, text)
			return nil
		}))
	}
	return all
}

func (h *useHome) wantAsBefore(when string, before map[string]string) {
	h.Helper()
	if diff := cmp.Diff(before, h.snapshot()); diff != "" {
		h.Fatalf("%s, not all is as it was:\n%s", when, diff)
	}
}

// cutOff is what a test ends a `mneme use` with, as a kill would.
type cutOff struct{ point string }

// begin returns a use that is cut off at the n-th point that it reaches; -1 is none.
func (h *useHome) begin(n int) *use {
	h.Helper()
	records, err := openUseRecords(true)
	h.must(err)
	return &use{
		records: records,
		mount: func(_ context.Context, r *useRecord) error {
			if entries, err := os.ReadDir(r.Mount); err != nil || len(entries) > 0 {
				return fmt.Errorf("%v in %s: %w", entries, r.Mount, err)
			}
			if h.fails {
				return errors.New("nothing can be mounted")
			}
			return nil
		},
		unmount: func(context.Context, *useRecord) ([]daemon.LeftFile, error) { return nil, nil },
		warn:    func(string) {},
		reached: func(point string) {
			if n--; n == -1 {
				panic(cutOff{point})
			}
		},
	}
}

// until runs do, and returns where it was cut off; "": it was not.
func (h *useHome) until(u *use, do func(*use) error) (point string, err error) {
	defer func() {
		h.must(u.records.Close())
		if v := recover(); v != nil {
			point = v.(cutOff).point
		}
	}()
	return "", do(u)
}

// found is the memory of an agent, of which "dir" is that of a directory.
func (h *useHome) found(agent string) *agentdirs.Found {
	h.Helper()
	if agent == dirAgent {
		return &agentdirs.Found{Agent: dirAgent, Name: "notes", Dir: h.home + "/notes"}
	}
	found, err := agentdirs.Find(agent, &agentdirs.Env{Home: h.home, Getenv: func(string) string { return "" }, Project: h.project, System: h.home})
	h.must(err)
	return found
}

func (h *useHome) do(u *use, agent string) error {
	h.Helper()
	return h.doFound(u, h.found(agent), "notes")
}

func (h *useHome) doFound(u *use, found *agentdirs.Found, store string) error {
	h.Helper()
	plan, err := newUsePlan(h.Context(), newApp(os.Stdin, os.Stdout, os.Stderr), found, store, h.named)
	if err != nil {
		return err
	}
	u.useRecord = &plan.record
	return u.do(h.Context(), plan.files, plan.make, func() (*backend.Library, error) { return openLibrary(h.Context(), nil, creating) })
}

// undo undoes the only record, if there is one.
func (h *useHome) undo(u *use) error {
	h.Helper()
	all, err := u.records.all()
	if err != nil || len(all) == 0 {
		return err
	}
	u.useRecord = all[0]
	return u.undo(h.Context())
}

// TestUseCutOff cuts `mneme use` off at each step, and its undoing at each step of that, and holds
// that the next one brings everything back, byte for byte.
func TestUseCutOff(t *testing.T) {
	setting := []string{"recorded", "store", "file", "made", "mounted", "edited", "set"}
	for name, test := range map[string]struct {
		agent   string
		prepare func(h *useHome)
		wants   []string
	}{
		"a directory":           {dirAgent, func(*useHome) {}, []string{"recorded", "store", "file", "moved", "made", "mounted"}},
		"a missing directory":   {dirAgent, func(h *useHome) { h.must(os.RemoveAll(h.home + "/notes")) }, []string{"recorded", "store", "made", "mounted"}},
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
				point, err := h.until(h.begin(n), func(u *use) error { return h.do(u, agent) })
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

// TestUseImports holds what becomes of files and directories.
func TestUseImports(t *testing.T) {
	h := newUseHome(t)
	_, err := h.until(h.begin(-1), func(u *use) error { return h.do(u, dirAgent) })
	h.must(err)
	lib, err := openLibrary(t.Context(), nil, reading)
	h.must(err)
	defer lib.Close()
	st, err := openStore(t.Context(), lib, "notes", reading)
	h.must(err)
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

// TestUseFails holds that all is as it was where a step fails.
func TestUseFails(t *testing.T) {
	for _, agent := range []string{dirAgent, "claude-code"} {
		h := newUseHome(t)
		before := h.snapshot()
		h.fails = true
		if _, err := h.until(h.begin(-1), func(u *use) error { return h.do(u, agent) }); err == nil || !strings.Contains(err.Error(), "all is as it was") {
			t.Errorf("%s: %v", agent, err)
		}
		h.wantAsBefore("after an error", before)
		records, err := openUseRecords(true)
		h.must(err)
		if all, err := records.all(); err != nil || len(all) > 0 {
			t.Errorf("%s: there are %d records, %v", agent, len(all), err)
		}
		h.must(records.Close())
	}
}

// TestUseMeetsAnotherSession holds that a directory is not replaced by a store in which another
// session has changed what was just imported.
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
	if _, err := h.until(u, func(u *use) error { return h.do(u, dirAgent) }); err == nil || !strings.Contains(err.Error(), "something else there") {
		t.Error(err)
	}
	h.wantAsBefore("after an error", before)
}

// TestUseMeetsChanges holds that a file which is changed while the directory is imported is not
// left behind.
func TestUseMeetsChanges(t *testing.T) {
	for _, test := range []struct{ agent, at string }{
		{dirAgent, "store"}, {dirAgent, "file"}, {dirAgent, "moved"}, {"claude-code", "store"}, {"claude-code", "file"}, {"claude-code", "mounted"},
	} {
		h := newUseHome(t)
		dir := h.found(test.agent).Dir
		file := dir + "/" + map[string]string{dirAgent: "a.md", "claude-code": "build.md"}[test.agent]
		u := h.begin(-1)
		changed := false
		u.reached = func(point string) {
			if point == test.at && !changed {
				changed = true
				h.write(strings.Replace(file, dir, map[bool]string{true: dir + ".before-mneme", false: dir}[point == "moved"], 1), "changed\n")
			}
		}
		_, err := h.until(u, func(u *use) error { return h.do(u, test.agent) })
		text, readErr := os.ReadFile(file)
		if err == nil || readErr != nil || string(text) != "changed\n" {
			t.Errorf("%s, changed at %s: %v; the file holds %q, %v", test.agent, test.at, err, text, readErr)
		}
	}
}

// fill makes the store with a memory.
func (h *useHome) fill(path, text string) {
	h.Helper()
	lib, err := openLibrary(h.Context(), nil, creating)
	h.must(err)
	_, err = lib.CreateStore(h.Context(), "notes", &memory.StoreOptions{Actor: userActor()})
	h.must(err)
	h.must(lib.Close())
	h.commit(path, text)
}

// commit is another session's.
func (h *useHome) commit(path, text string) {
	h.Helper()
	h.must(newApp(os.Stdin, os.Stdout, os.Stderr).withStore(h.Context(), "notes", writing, func(st *memory.Store) error {
		_, err := st.Write(h.Context(), path, []byte(text), versionlog.ExpectAny())
		return err
	}))
}

// drop removes a memory, as another session.
func (h *useHome) drop(path string) {
	h.Helper()
	h.must(newApp(os.Stdin, os.Stdout, os.Stderr).withStore(h.Context(), "notes", writing, func(st *memory.Store) error {
		_, err := st.Remove(h.Context(), path, versionlog.ExpectAny())
		return err
	}))
}

// TestUseMeetsASettingOfOthers holds that undoing leaves what others have put in the settings.
func TestUseMeetsASettingOfOthers(t *testing.T) {
	h := newUseHome(t)
	file := h.project + "/.claude/settings.local.json"
	use := func() {
		t.Helper()
		_, err := h.until(h.begin(-1), func(u *use) error { return h.do(u, "claude-code") })
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
	if _, err = h.until(h.begin(-1), h.undo); !errors.Is(err, errUndoHasWay) || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("undoing a setting that is another's: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != own {
		t.Errorf("%q, %v", text, err)
	}
}

// TestUndoMeetsFiles holds that files made where the store was mounted are left.
func TestUndoMeetsFiles(t *testing.T) {
	h := newUseHome(t)
	before := h.snapshot()
	_, err := h.until(h.begin(-1), func(u *use) error { return h.do(u, dirAgent) })
	h.must(err)
	h.write(h.home+"/notes/new", "text")
	if _, err := h.until(h.begin(-1), h.undo); !errors.Is(err, errUndoHasWay) {
		t.Errorf("undoing where files are: %v", err)
	}
	h.must(os.Remove(h.home + "/notes/new"))
	_, err = h.until(h.begin(-1), h.undo)
	h.must(err)
	h.wantAsBefore("undone", before)
}

// TestUseRecordFormat holds that a record of format 1 is read as it was written, and one of a newer
// format refused.
func TestUseRecordFormat(t *testing.T) {
	newUseHome(t)
	records, err := openUseRecords(true)
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
	all, err := records.all()
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
	if _, err := records.all(); !errors.Is(err, errNewerRecord) {
		t.Errorf("a newer record: %v", err)
	}
}
