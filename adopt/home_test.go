package adopt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// useHome is a home with directories of agents.
type useHome struct {
	*testing.T
	home, project string
	fails         bool // mounting fails
	named         bool // the person named the store
}

func newUseHome(t *testing.T) *useHome {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &useHome{T: t, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project")}
	for name, value := range map[string]string{"HOME": h.home, "XDG_STATE_HOME": dir + "/state", "XDG_DATA_HOME": dir + "/data", "XDG_CACHE_HOME": dir + "/cache", "MNEME_URL": ""} {
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

// snapshot returns the contents of the home and the project, byte for byte.
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

// cutOff is the panic with which a test ends an Adoption, as a kill would.
type cutOff struct{ point string }

// begin returns an Adoption that is cut off at the n-th point that it reaches; -1: at none.
func (h *useHome) begin(n int) *Adoption {
	h.Helper()
	records, err := OpenRecords(true)
	h.must(err)
	return &Adoption{
		Records: records, Open: testOpen, Actor: testActor,
		StartMount: func(_ context.Context, r *Record) error {
			if entries, err := os.ReadDir(r.Mount); err != nil || len(entries) > 0 {
				return fmt.Errorf("%v in %s: %w", entries, r.Mount, err)
			}
			if h.fails {
				return errors.New("nothing can be mounted")
			}
			return nil
		},
		EndMount: func(context.Context, *Record) ([]daemon.LeftFile, error) { return nil, nil },
		Warn:     func(string) {},
		reached: func(point string) {
			if n--; n == -1 {
				panic(cutOff{point})
			}
		},
	}
}

// until runs do, and returns the point at which it was cut off; "": it was not.
func (h *useHome) until(u *Adoption, do func(*Adoption) error) (point string, err error) {
	defer func() {
		h.must(u.Records.Close())
		if v := recover(); v != nil {
			point = v.(cutOff).point
		}
	}()
	return "", do(u)
}

// found is the memory of an agent; "dir" is a directory.
func (h *useHome) found(agent string) *agentdirs.Found {
	h.Helper()
	if agent == DirAgent {
		return &agentdirs.Found{Agent: DirAgent, Name: "notes", Dir: h.home + "/notes"}
	}
	found, err := agentdirs.Find(agent, &agentdirs.Env{Home: h.home, Getenv: func(string) string { return "" }, Project: h.project, System: h.home})
	h.must(err)
	return found
}

func (h *useHome) do(u *Adoption, agent string) error {
	h.Helper()
	return h.doFound(u, h.found(agent), "notes")
}

func (h *useHome) doFound(u *Adoption, found *agentdirs.Found, store string) error {
	h.Helper()
	plan, err := NewPlan(h.Context(), h.options(), found, store, h.named)
	if err != nil {
		return err
	}
	u.Record = &plan.Record
	return u.Do(h.Context(), plan.Files, plan.Make)
}

func (h *useHome) options() *PlanOptions {
	h.Helper()
	url, err := backend.DefaultURL()
	h.must(err)
	at, err := backend.Locate(url)
	h.must(err)
	return &PlanOptions{At: at, MayBeMissing: true, Open: testOpen, Actor: testActor, Policy: versionlog.Policy{Secrets: versionlog.SecretsWarn}}
}

var testActor = versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}

func testOpen(ctx context.Context, url string, opts backend.Options) (*backend.Library, error) {
	at, err := backend.Locate(url)
	if err != nil {
		return nil, err
	}
	return at.Open(ctx, &opts)
}

// library opens the user's stores. The caller closes them.
func (h *useHome) library(opts backend.Options) *backend.Library {
	h.Helper()
	lib, err := testOpen(h.Context(), h.options().At.URL, opts)
	h.must(err)
	return lib
}

// store opens the store notes, for an author or nil.
func (h *useHome) store(lib *backend.Library, author *memory.Author) *memory.Store {
	h.Helper()
	info, err := lib.FindStore(h.Context(), "notes")
	h.must(err)
	st, err := lib.Open(h.Context(), info.ID, author)
	h.must(err)
	return st
}

// undo undoes the only record, if it exists.
func (h *useHome) undo(u *Adoption) error {
	h.Helper()
	all, err := u.Records.All()
	if err != nil || len(all) == 0 {
		return err
	}
	u.Record = all[0]
	return u.Undo(h.Context())
}

// fill makes the store with a memory.
func (h *useHome) fill(path, text string) {
	h.Helper()
	lib := h.library(backend.Options{Create: true})
	_, err := lib.CreateStore(h.Context(), "notes", &memory.StoreOptions{Actor: testActor})
	h.must(err)
	h.must(lib.Close())
	h.commit(path, text)
}

// commit changes a memory, as another session.
func (h *useHome) commit(path, text string) {
	h.Helper()
	lib := h.library(backend.Options{})
	_, err := h.store(lib, &memory.Author{Actor: testActor}).Write(h.Context(), path, []byte(text), versionlog.ExpectAny())
	h.must(errors.Join(err, lib.Close()))
}

// drop removes a memory, as another session.
func (h *useHome) drop(path string) {
	h.Helper()
	lib := h.library(backend.Options{})
	_, err := h.store(lib, &memory.Author{Actor: testActor}).Remove(h.Context(), path, versionlog.ExpectAny())
	h.must(errors.Join(err, lib.Close()))
}
