package harness

import "testing"

// KeptConflict is a line of `mneme conflicts list --json`.
type KeptConflict struct {
	ID      int    `json:"id"`
	Path    string `json:"path"`
	Session string `json:"session"`
	Why     string `json:"why"`
	Base    *struct {
		Seq uint64 `json:"seq"`
	} `json:"base"`
	Theirs *struct {
		Seq     uint64 `json:"seq"`
		Session string `json:"session"`
	} `json:"theirs"`
}

// Lose makes a session lose a race for a file: it has base read, and writes
// yours while the command line writes theirs.
func (m *Mount) Lose(t *testing.T, path, base, theirs, yours string) {
	t.Helper()
	e := m.Env
	if base != "" {
		m.Sh(t, "printf "+base+" > "+path)
	}
	a := m.Agent(t)
	e.MustIn(t, theirs, "write", "notes:/"+path)
	a.Must(t, Call{Op: "put", Path: path + ".tmp", Text: yours})
	if r := a.Do(t, Call{Op: "rename", Path: path + ".tmp", To: path}); r.OK() {
		t.Fatalf("%s: the race was not lost", path)
	}
}
