package backend

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
	"mneme/witness"
)

// TestWitnessAtTheEnd holds that all that was written is remembered once a library
// is closed, and that a library which is only read remembers nothing.
func TestWitnessAtTheEnd(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	url := fileURL(filepath.Join(t.TempDir(), "stores"))
	remembered := func() string {
		files, err := filepath.Glob(filepath.Join(state, "mneme", witnessDir, "*", "*"))
		if err != nil || len(files) == 0 {
			return ""
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	open := func(opts Options) *Library {
		lib, err := Open(t.Context(), url, &opts)
		if err != nil {
			t.Fatal(err)
		}
		return lib
	}
	end := func(lib *Library) {
		if err := lib.Close(); err != nil {
			t.Fatal(err)
		}
	}
	lib := open(Options{Create: true})
	notes, err := lib.CreateStore(t.Context(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	end(lib)
	lib = open(Options{ReadOnly: true})
	if _, err := lib.Open(t.Context(), notes.ID, nil); err != nil {
		t.Fatal(err)
	}
	end(lib)
	if got := remembered(); got != "" {
		t.Errorf("before anything is written, %s is remembered", got)
	}
	lib = open(Options{})
	st, err := lib.Open(t.Context(), notes.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two", "three"} {
		if _, err := st.Write(t.Context(), "/a", []byte(text), versionlog.ExpectAny()); err != nil {
			t.Fatal(err)
		}
	}
	end(lib)
	if got := remembered(); !strings.Contains(got, `"seq":3,`) {
		t.Errorf("in the end %s is remembered, want sequence number 3", got)
	}
}

// goneBack is a log that has found by itself that its history went back.
type goneBack struct{ versionlog.Log }

func (goneBack) Tip(context.Context, string) (versionlog.Tip, error) {
	return versionlog.Tip{}, versionlog.ErrRewritten
}

// TestWitnessTellsLossFromBackend: what this machine has seen and misses is one error, and
// what a backend finds by itself another, for only the first may be accepted.
func TestWitnessTellsLossFromBackend(t *testing.T) {
	s := versionlog.Store{ID: "memstore_1", Slug: "notes"}
	w := watcher{witness.New(t.TempDir(), "file:///x"), &Library{}}
	if err := w.Check(t.Context(), goneBack{}, s); err != versionlog.ErrRewritten {
		t.Errorf("of a backend: %v", err)
	}
	seen := &witness.MissingError{Store: s.Slug, What: "x"}
	if err := w.lib.explain(t.Context(), seen, s); err != seen {
		t.Errorf("of what was seen: %v", err)
	}
	behind := errors.Join(versionlog.ErrRewritten)
	w.lib.reach = func(context.Context, string, bool) error { return behind }
	if err := w.lib.explain(t.Context(), seen, s); err != behind {
		t.Errorf("of an index that is behind: %v", err)
	}
}

// TestSeenBesideUpdate: a store that is updated while it is compared has not changed
// behind its history.
func TestSeenBesideUpdate(t *testing.T) {
	log := memlog.New(nil)
	s := versionlog.Store{ID: "memstore_1", Slug: "notes"}
	if err := log.CreateStore(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w := witness.New(t.TempDir(), "file:///x")
	if err := w.Check(t.Context(), log, s); err != nil {
		t.Fatal(err)
	}
	w.Close()
	update := func(text string) versionlog.Store {
		p := &versionlog.Proposal{Key: versionlog.NewKey(), Event: versionlog.StoreUpdated(versionlog.StoreUpdate{Description: &text})}
		if _, err := log.Commit(t.Context(), s.ID, p); err != nil {
			t.Fatal(err)
		}
		now, err := log.Store(t.Context(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	before := update("once")
	update("and again")
	lib := &Library{log: log, witness: w}
	if missing, changed, err := lib.Seen(t.Context(), before); missing != "" || changed != nil || err != nil {
		t.Errorf("missing is %q, changed %q, %v; want nothing", missing, changed, err)
	}
}
