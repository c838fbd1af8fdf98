package use

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/tests/harness"
)

// useCase is something people or programs do with files, and what has to come
// of it.
type useCase struct {
	name  string
	needs []string // programs
	// script runs in an empty directory of the mount; $OLD is a file outside
	// it with the content "old\n", $OUT an empty directory outside it.
	script string
	out    string   // what it prints
	log    []string // every version it leaves, in order; nil is none
	// scratch are the files that are then in the mount and not in the store.
	scratch []string
}

// runUseCases runs every case in a directory of its own on one mount of a store
// made with those flags.
func runUseCases(t *testing.T, cases []useCase, storeFlags ...string) {
	t.Helper()
	e := harness.NewEnv(t)
	e.Store("notes", storeFlags...)
	m := e.Mount(t, "notes")
	t.Run("cases", func(t *testing.T) { // returns when all of them have ended
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				harness.NeedTools(t, c.needs...)
				runUseCase(t, m, "notes", c)
			})
		}
	})
}

func runUseCase(t *testing.T, m *harness.Mount, store string, c useCase) {
	t.Helper()
	dir := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(c.name))
	out := m.Sh(t, `
		export OUT=$(mktemp -d) OLD=$(mktemp)
		echo old > "$OLD"
		mkdir `+dir+`; cd `+dir+`
		`+c.script)
	if diff := cmp.Diff(c.out, out); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	commits := m.Env.Commits(t, store)
	got := harness.Changes(commits, "/"+dir)
	if want := append([]string{}, c.log...); !slices.Equal(want, got) {
		t.Errorf("history (-want +got):\n%s", cmp.Diff(want, got))
	}
	checkChains(t, m, commits, "/"+dir)
	checkAgainstLog(t, m, commits, "/"+dir, c.scratch)
}

// checkChains checks that every version below prefix names its author, and names the version
// before it of the same memory.
func checkChains(t *testing.T, m *harness.Mount, commits []harness.Commit, prefix string) {
	t.Helper()
	last := map[string]harness.Version{}
	for _, c := range commits {
		for _, v := range c.Versions {
			if !strings.HasPrefix(v.Path, prefix+"/") && !strings.HasPrefix(v.From, prefix+"/") {
				continue
			}
			before, had := last[v.MemoryID]
			last[v.MemoryID] = v
			switch {
			case v.Session != m.Session || v.Actor["session_id"] != m.Session || v.Actor["type"] != "session_actor":
				t.Errorf("%v is by %v in session %q, want %q", v, v.Actor, v.Session, m.Session)
			case v.Op == "created" && (had || v.Parent != ""):
				t.Errorf("%v has parent %q, want none", v, v.Parent)
			case v.Op != "created" && (!had || v.Parent != before.ID):
				t.Errorf("%v has parent %q, want %q, the last version of %s", v, v.Parent, before.ID, v.MemoryID)
			}
		}
	}
}

// checkAgainstLog checks that the files below prefix are, byte for byte, those
// that the log says there are, besides the scratch files.
func checkAgainstLog(t *testing.T, m *harness.Mount, commits []harness.Commit, prefix string, scratch []string) {
	t.Helper()
	want := heads(commits, prefix)
	for _, name := range scratch {
		want[name] = "scratch"
	}
	got := map[string]string{}
	for line := range strings.Lines(m.Sh(t, `cd .`+prefix+`; find . -type f -printf '%P\0' | xargs -0r sha256sum --`)) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		got[name] = sum
		if want[name] == "scratch" {
			got[name] = "scratch"
		}
	}
	if !maps.Equal(want, got) {
		t.Errorf("files below %s in the mount (+) and in the log (-):\n%s", prefix, cmp.Diff(want, got))
	}
}

// heads returns the digests of the live memories below prefix.
func heads(commits []harness.Commit, prefix string) map[string]string {
	live := map[string]string{}
	for _, c := range commits {
		for _, v := range c.Versions {
			delete(live, v.From)
			if v.Op == "deleted" {
				delete(live, v.Path)
			}
		}
		for _, v := range c.Versions {
			if v.Op != "deleted" {
				live[v.Path] = v.SHA256
			}
		}
	}
	below := map[string]string{}
	for path, sum := range live {
		if name, ok := strings.CutPrefix(path, prefix+"/"); ok {
			below[name] = sum
		}
	}
	return below
}
