package memory_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// TestPast compares a store's past with its writes, on every log.
func TestPast(t *testing.T) {
	for _, name := range []string{"memlog", "sqlitelog"} {
		t.Run(name, func(t *testing.T) { testPast(t, historyBackends[name](t)[0]) })
	}
}

func testPast(t *testing.T, lib *memory.Library) {
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := lib.Open(t.Context(), info.ID, author)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/b.md", "/a.md"} {
		// The reply may be lost on purpose; then the memory is there all the same.
		if _, err := st.Write(t.Context(), path, []byte(path), versionlog.ExpectAbsent()); err != nil {
			if _, err := st.Head(t.Context(), path); err != nil {
				t.Fatal(err)
			}
		}
	}
	for seq, want := range [][]string{nil, {"/b.md"}, {"/a.md", "/b.md"}} {
		state, err := st.At(t.Context(), uint64(seq))
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for v, err := range state.Heads(t.Context(), "/", "") {
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, v.Path)
		}
		if !slices.Equal(paths, want) {
			t.Errorf("at %d there are %q, want %q", seq, paths, want)
		}
	}
	if _, err := st.At(t.Context(), 3); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("at a commit that is not there: %v", err)
	}
	newest, err := st.Head(t.Context(), "/a.md")
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Time]uint64{newest.Time: 2, newest.Time.Add(time.Hour): 2, {}: 0} {
		if seq, err := st.SeqAt(t.Context(), at); err != nil || seq != want {
			t.Errorf("at %v the newest commit was %d, %v; want %d", at, seq, err, want)
		}
	}
}
