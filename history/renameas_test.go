package history_test

import (
	"errors"
	"testing"

	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
)

// TestRenameWithContent: one version gives a memory another path and another content, and what
// looks at histories sees both.
func TestRenameWithContent(t *testing.T) {
	f := newFixture(t, nil)
	first := f.Put("/a", "one\ntwo\n", versionlog.ExpectAbsent())
	rename := func(from, to, text string) (*versionlog.Commit, error) {
		return f.Batch(t.Context(), []memory.Change{{
			Action: versionlog.Rename, Path: from, To: to, Content: []byte(text), Expect: versionlog.ExpectDigest(first.Digest),
		}}, nil)
	}
	c, err := rename("/a", "/d/b", "one\nthree\n")
	if err != nil || len(c.Versions) != 1 || c.Versions[0].Op != versionlog.OpRenamed || c.Versions[0].MemoryID != first.MemoryID {
		t.Fatalf("%+v, %v", c, err)
	}
	f.WantContent("/d/b", "one\nthree\n")
	f.wantBlame("/d/b", "1 2")
	for text, want := range map[string]string{"one": "1/a", "two": "2/d/b 1/a", "three": "2/d/b"} {
		if got := f.logOf("/", history.Query{Text: text}); got != want {
			t.Errorf("log of %q: %s, want %s", text, got, want)
		}
	}
	if _, err := rename("/d/b", "/c", "\xff"); !errors.Is(err, memory.ErrNotText) {
		t.Errorf("%v, want ErrNotText", err)
	}
	if _, err := rename("/d/b", "/c", "four"); !errors.Is(err, versionlog.ErrConflict) {
		t.Errorf("%v, want ErrConflict", err)
	}
	if c, err = f.Batch(t.Context(), []memory.Change{{Action: versionlog.Rename, Path: "/d/b", To: "/empty", Content: []byte{}, Expect: versionlog.ExpectExists()}}, nil); err != nil || c.Versions[0].Size != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	f.WantContent("/empty", "")
	if _, err := f.Rename(t.Context(), "/empty", "/still", nil); err != nil {
		t.Error(err)
	}
	f.WantContent("/still", "")
}
