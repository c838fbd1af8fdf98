package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mneme/versionlog"
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
