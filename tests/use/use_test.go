package use

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mneme/tests/harness"
)

// agentHome is an agent's home, with what is in it.
type agentHome struct {
	*harness.Env
	t testing.TB
}

func newAgentHome(t testing.TB, files map[string]string) *agentHome {
	t.Helper()
	h := &agentHome{harness.NewEnv(t), t}
	for name, text := range files {
		path := filepath.Join(h.Home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 2, 3, 4, 5, 6, len(name), time.UTC)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, dir := range harness.MountsBelow(h.Home) {
			h.Mneme("unmount", dir)
		}
	})
	return h
}

// snapshot is all that is in the home except the files that mneme has there: text, mode, time and
// inode.
func (h *agentHome) snapshot() map[string]string {
	h.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(h.Home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == ".local" {
			return errOrSkip(err)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, when := "", ""
		if !d.IsDir() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text, when = string(data), fmt.Sprint(info.ModTime().UnixNano())
		}
		if strings.Contains(path, "memor") {
			when = fmt.Sprint(info.ModTime().UnixNano(), info.Sys().(*syscall.Stat_t).Ino)
		}
		if strings.HasSuffix(path, ".json") {
			when = ""
		}
		all[path] = fmt.Sprintf("%v %s %q", info.Mode(), when, text)
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

func errOrSkip(err error) error {
	if err == nil {
		return fs.SkipDir
	}
	return err
}

func (h *agentHome) wantAsBefore(before map[string]string) {
	h.t.Helper()
	if diff := cmp.Diff(before, h.snapshot()); diff != "" {
		h.t.Errorf("not all is as it was:\n%s", diff)
	}
}

// sh runs a script, which has to succeed.
func (h *agentHome) sh(script string, args ...string) string {
	h.t.Helper()
	r := h.Run(h.t, harness.ScriptPatience, "", func() {}, "bash", append([]string{"-euc", script, "bash"}, args...)...)
	if r.Code != 0 {
		h.t.Fatalf("%s\n%v", script, r)
	}
	return r.Stdout
}

// TestUseDirectory mounts a store in the place of a directory, and brings that back.
func TestUseDirectory(t *testing.T) {
	t.Parallel()
	h := newAgentHome(t, map[string]string{"agent/memory/a.md": "a\n", "agent/memory/d/b.md": "b\n", "agent/memory/d/bin": "\xff\x00"})
	dir := filepath.Join(h.Home, "agent", "memory")
	h.Store("other") // so that there are stores at the URL
	h.sh(`mkdir "$1/empty"`, dir)
	before := h.snapshot()

	if r := h.Run(t, harness.ScriptPatience, "", func() {}, "sh", "-c", `cd "$1" && mneme use "$1" --yes`, "sh", dir); r.Code != 4 || !strings.Contains(r.Stderr, "in use by sh") {
		t.Errorf("use of a directory that a shell stands in: %v", r)
	}
	h.wantAsBefore(before)
	h.Must(t, "use", dir, "--yes")
	h.sh(`cd "$1"; test "$(find . -type f | sort | tr '\n' ' ')" = "./a.md ./d/b.md ./d/bin "; test -d empty; cat a.md; echo more >> a.md; rm d/b.md; mkdir new; echo new > new/c.md
		mneme log ./a.md | grep -c .; mneme status | grep -q "$1"`, dir)
	if out := h.Must(t, "use", "--list"); !strings.Contains(out, dir) || !strings.Contains(out, "mounted") {
		t.Errorf("use --list: %s", out)
	}
	h.Must(t, "unmount", dir) // as after a restart
	h.sh(`echo stray > "$1/stray"; ! mneme use "$1"; rm "$1/stray"`, dir)
	h.Must(t, "use", dir)
	h.sh(`cd "$1"; cat new/c.md; exec 3> new/c.md; echo theirs | mneme write memory:/new/c.md; ! echo mine >&3`, dir) // which is kept as a conflict
	if r := h.Mneme("use", dir, "--undo"); r.Code != 2 || !strings.Contains(r.Stderr, "changes made since, which will not be in "+dir+"; --keep-changes brings them there; --yes says") {
		t.Errorf("use --undo: %v", r)
	}
	h.sh(`cat "$1/new/c.md"`, dir) // nothing was done
	h.sh(`mkdir "$1/sub"; cd "$1/sub"; ! mneme use . --undo 2> "$HOME/err"; grep -q "mneme use $1 --undo" "$HOME/err"; cd ..; rmdir sub; rm "$HOME/err"`, dir)
	r := h.Run(t, harness.ScriptPatience, "", func() {}, "sh", "-c", `cd "$1" && mneme use . --undo --yes && mneme use --list && ! mneme use . --undo`, "sh", dir)
	for _, want := range []string{"changes made since", "which is gone: `cd " + dir + "`", "Nothing is in use.", "Not in the history, but kept: memory:/new/c.md"} {
		if r.Code != 0 || !strings.Contains(r.Stdout, want) {
			t.Errorf("use --undo: %v, want %q", r, want)
		}
	}
	if left := harness.MountsBelow(h.Home); len(left) > 0 {
		t.Errorf("still mounted: %v", left)
	}
	h.wantAsBefore(before)
	if out := h.Must(t, "cat", "memory:/a.md"); out != "a\nmore\n" {
		t.Errorf("the store has %q", out)
	}
	if r := h.Mneme("use", dir, "--dry-run"); r.Code != 4 || !strings.Contains(r.Stderr, "another text there") && !strings.Contains(r.Stderr, "other memories") {
		t.Errorf("use of a store that has changed since: %v", r)
	}
}

// TestUseOfUser is TestUseDirectory for a user without rights; that user mounts with fusermount3.
func TestUseOfUser(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "fusermount3")
	e := harness.NewUser(t)
	r := e.Inside(t, harness.SearchPath(), `
		user 'mneme store create other > /dev/null; mkdir -p agent/m/d; echo a > agent/m/d/a.md; chmod 640 agent/m/d/a.md
			list() { ls -lRi --time-style=full-iso agent; }
			list > before; mneme use ./agent/m --yes > /dev/null
			grep -c "/agent/m fuse.mneme" /proc/self/mounts; cat agent/m/d/a.md; echo more >> agent/m/d/a.md
			mneme use ./agent/m --undo --yes > /dev/null; list | diff before -; cat agent/m/d/a.md; mneme cat m:/d/a.md'`)
	if r.Code != 0 || r.Stdout != "1\na\na\na\nmore\n" {
		t.Error(r)
	}
}

// TestUseLetta has git work in a checkout whose git directory lies elsewhere, with its hooks.
func TestUseLetta(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "git")
	h := newAgentHome(t, nil)
	h.Store("other")
	dir := filepath.Join(h.Home, ".letta", "agents", "a1", "memory")
	h.sh(`mkdir -p "$1/system"; cd "$1"; git init -q -b main; echo me > system/persona.md; git add -A; git commit -qm one
		printf '#!/bin/sh\necho "$PWD" > hook-ran.md\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit`, dir)
	before := h.snapshot()
	h.Must(t, "use", "letta-files", "--yes")
	h.sh(`cd "$1"; test -z "$(git status --porcelain | grep -v '^?? .git$')"; echo more >> system/persona.md; git add system; git commit -qm two
		test "$(git log --format=%s | head -n 1)" = two; test "$(cat hook-ran.md)" = "$1"; git -C "$1/system" rev-parse --git-dir | grep -q /git/letta-a1`, dir)
	if r := h.Mneme("use", "letta-files", "--undo", "--yes"); r.Code != 0 || !strings.Contains(r.Stdout, "git is in") {
		t.Errorf("undo: %v", r)
	}
	h.wantAsBefore(before)
}

// TestUseClaudeCode changes the setting of a project, and brings that back.
func TestUseClaudeCode(t *testing.T) {
	t.Parallel()
	h := newAgentHome(t, nil)
	h.Store("other")
	memory := filepath.Join(h.Home, ".claude", "projects", strings.NewReplacer("/", "-", "_", "-", ".", "-").Replace(h.Home)+"-work", "memory")
	h.sh(`cd; mkdir -p "$1" work/.git work/.claude; echo index > "$1/MEMORY.md"; printf '{ "model": "opus" }' > work/.claude/settings.local.json`+"\n", memory)
	before := h.snapshot()
	work := filepath.Join(h.Home, "work")
	h.Must(t, "use", "claude-code", "--project", work, "--yes", "--store", "claude")
	var settings struct{ AutoMemoryDirectory, Model string }
	text, err := os.ReadFile(work + "/.claude/settings.local.json")
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err != nil || settings.Model != "opus" || settings.AutoMemoryDirectory == "" {
		t.Fatalf("the settings are %s, %v", text, err)
	}
	h.sh(`cd "$1"; test "$(cat MEMORY.md)" = index; echo more >> MEMORY.md; mneme cat claude:/MEMORY.md | grep -q more`, settings.AutoMemoryDirectory)
	h.Must(t, "use", "claude-code", "--project", work, "--undo", "--yes")
	h.wantAsBefore(before)
	if out := h.Must(t, "use", "--list"); !strings.Contains(out, "Nothing") {
		t.Errorf("use --list: %s", out)
	}
}
