package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mneme/versionlog"
	"mneme/witness"
)

// TestWitnessAtTheEnd holds that all that was written is remembered once a library
// is closed, and that a library which is only read remembers nothing.
func TestWitnessAtTheEnd(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	url := "file://" + filepath.Join(t.TempDir(), "stores")
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
	open := func(opts openOptions) *library {
		lib, err := openLibrary(t.Context(), &url, opts)
		if err != nil {
			t.Fatal(err)
		}
		return lib
	}
	end := func(lib *library) {
		if err := lib.Close(); err != nil {
			t.Fatal(err)
		}
	}
	lib := open(openOptions{create: true})
	if _, err := lib.CreateStore(t.Context(), "notes", nil); err != nil {
		t.Fatal(err)
	}
	end(lib)
	lib = open(reading)
	if _, err := openStore(t.Context(), lib.Library, "notes", reading); err != nil {
		t.Fatal(err)
	}
	end(lib)
	if got := remembered(); got != "" {
		t.Errorf("before anything is written, %s is remembered", got)
	}
	lib = open(writing)
	st, err := openStore(t.Context(), lib.Library, "notes", writing)
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

// TestWitnessAdvisesOnItsOwn: what to accept is said of what this machine has seen, not
// of what a backend finds.
func TestWitnessAdvisesOnItsOwn(t *testing.T) {
	s := versionlog.Store{ID: "memstore_1", Slug: "notes"}
	w := advisedWitness{witness.New(t.TempDir(), "file:///x"), &library{}}
	if err := w.Check(t.Context(), goneBack{}, s); err != versionlog.ErrRewritten {
		t.Errorf("of a backend: %v", err)
	}
	advised := w.lib.advise(t.Context(), &witness.MissingError{What: "x"}, s)
	if !errors.Is(advised, versionlog.ErrRewritten) || !strings.Contains(advised.Error(), "--accept-loss") {
		t.Errorf("of what was seen: %v", advised)
	}
}
