package harness

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Version is one line of `mneme log --json STORE:/path`.
type Version struct {
	ID       string            `json:"id"`
	MemoryID string            `json:"memory_id"`
	Parent   string            `json:"parent_version_id"`
	Seq      uint64            `json:"seq"`
	Op       string            `json:"operation"`
	Path     string            `json:"path"`
	From     string            `json:"from_path"`
	SHA256   string            `json:"content_sha256"`
	Size     int64             `json:"content_size_bytes"`
	Actor    map[string]string `json:"created_by"`
	Session  string            `json:"session_id"`
	Message  string            `json:"message"`
}

// String is the operation and where.
func (v Version) String() string { return v.below("") }

// below is String with paths below a directory.
func (v Version) below(dir string) string {
	path := strings.TrimPrefix(v.Path, dir+"/")
	if v.Op == "renamed" {
		return v.Op + " " + strings.TrimPrefix(v.From, dir+"/") + " > " + path
	}
	return v.Op + " " + path
}

// Commit is one line of `mneme log --json STORE`.
type Commit struct {
	Seq      uint64         `json:"seq"`
	Versions []Version      `json:"versions"`
	Event    map[string]any `json:"event"` // of the store, instead of versions
}

// DecodeLines decodes a text of one JSON value a line.
func DecodeLines[T any](t testing.TB, text string) []T {
	t.Helper()
	var all []T
	for line := range strings.Lines(text) {
		var one T
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		all = append(all, one)
	}
	return all
}

// Versions returns the history of a memory, oldest first; nil when there never
// was one.
func (e *Env) Versions(t testing.TB, place string) []Version {
	t.Helper()
	r := e.MnemeIn(t, "", "log", "--json", place)
	if r.Code == 3 {
		return nil
	}
	if r.Code != 0 {
		t.Fatalf("mneme log %s: %v", place, r)
	}
	all := DecodeLines[Version](t, r.Stdout)
	slices.Reverse(all)
	return all
}

// Commits returns the history of a store, oldest first, with its versions of memories:
// directories are left out.
func (e *Env) Commits(t testing.TB, store string) []Commit {
	t.Helper()
	all := DecodeLines[Commit](t, e.Must(t, "log", "--json", store))
	slices.Reverse(all)
	for i, c := range all {
		if c.Seq != uint64(i+1) {
			t.Fatalf("commit %d of store %s has sequence number %d; the sequence is dense", i+1, store, c.Seq)
		}
		if (len(c.Versions) == 0) != (c.Event != nil) {
			t.Fatalf("commit %d has %d versions, and the event %v", c.Seq, len(c.Versions), c.Event)
		}
		all[i].Versions = slices.DeleteFunc(c.Versions, func(v Version) bool { return strings.HasSuffix(v.Path, "/") })
	}
	return all
}

// ChangesBelow returns every version of a store that touched a path at or
// below prefix, oldest first, with the prefix taken off.
func (e *Env) ChangesBelow(t testing.TB, store, prefix string) []string {
	t.Helper()
	return Changes(e.Commits(t, store), prefix)
}

// Changes returns every version that touched a path at or below prefix, oldest first,
// with the prefix taken off.
func Changes(commits []Commit, prefix string) []string {
	lines := []string{}
	below := func(path string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }
	for _, c := range commits {
		for _, v := range c.Versions {
			if below(v.Path) || below(v.From) {
				lines = append(lines, v.below(prefix))
			}
		}
	}
	return lines
}

// CheckChanges compares what ChangesBelow returns with what is wanted; the
// order of versions is that of the commits.
func (e *Env) CheckChanges(t testing.TB, store, prefix string, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, e.ChangesBelow(t, store, prefix)); diff != "" {
		t.Errorf("history of %s:%s (-want +got):\n%s", store, prefix, diff)
	}
}

// CheckHistory checks that a memory's history has those operations ("created
// modified"), that it is one memory, that every version names the one before
// it, and that session made them all.
func (e *Env) CheckHistory(t testing.TB, place, session, ops string) []Version {
	t.Helper()
	vs := e.Versions(t, place)
	got := make([]string, len(vs))
	for i, v := range vs {
		got[i] = v.Op
		switch {
		case v.MemoryID != vs[0].MemoryID:
			t.Errorf("%s: version %d belongs to %s, the first to %s", place, i+1, v.MemoryID, vs[0].MemoryID)
		case i > 0 && v.Parent != vs[i-1].ID:
			t.Errorf("%s: version %d has parent %q, want %q", place, i+1, v.Parent, vs[i-1].ID)
		case i == 0 && v.Parent != "":
			t.Errorf("%s: the first version has parent %q", place, v.Parent)
		case i > 0 && v.Seq <= vs[i-1].Seq:
			t.Errorf("%s: version %d has sequence %d after %d", place, i+1, v.Seq, vs[i-1].Seq)
		}
		if session != "" && (v.Session != session || v.Actor["type"] != "session_actor" || v.Actor["session_id"] != session) {
			t.Errorf("%s: version %d is by %v in session %q, want session %q", place, i+1, v.Actor, v.Session, session)
		}
	}
	if ops := strings.Fields(ops); !slices.Equal(got, ops) {
		t.Errorf("%s has history %v, want %v", place, got, ops)
	}
	return vs
}

// DecodeOne decodes a JSON value of the type of its last argument.
func DecodeOne[T any](t testing.TB, text string, _ T) T {
	t.Helper()
	all := DecodeLines[T](t, text)
	if len(all) != 1 {
		t.Fatalf("want one line of JSON, got %d:\n%s", len(all), text)
	}
	return all[0]
}
