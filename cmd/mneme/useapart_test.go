package main

import (
	"path/filepath"
	"strings"
	"testing"

	"mneme/internal/agentdirs"
)

// TestUseApart holds that no directory is used that cannot be brought back without another.
func TestUseApart(t *testing.T) {
	h := newUseHome(t)
	if _, err := h.until(h.begin(-1), func(u *use) error { return h.doAt(u, "notes/d", "inner") }); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"notes", "notes/d/e", "notes/d.before-mneme", "notes/d.before-mneme/e"} {
		_, err := h.until(h.begin(-1), func(u *use) error { return h.doAt(u, dir, "outer") })
		if err == nil || !strings.Contains(err.Error(), "is in use by mneme") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// TestUseOfNothing counts only what was changed since as changed.
func TestUseOfNothing(t *testing.T) {
	h := newUseHome(t)
	u := h.begin(-1)
	if _, err := h.until(u, func(u *use) error { return h.doAt(u, "none", "none") }); err != nil {
		t.Fatal(err)
	}
	if n, err := u.since(t.Context()); n != 0 || err != nil {
		t.Errorf("%d changes, %v", n, err)
	}
}

// doAt uses a directory of the home for a store.
func (h *useHome) doAt(u *use, dir, store string) error {
	h.Helper()
	found := &agentdirs.Found{Agent: dirAgent, Name: store, Dir: filepath.Join(h.home, dir)}
	return h.doFound(u, found, store)
}
