package adopt

import (
	"path/filepath"
	"strings"
	"testing"

	"mneme/internal/agentdirs"
)

// TestUseApart: a directory is refused if it cannot be restored without another one.
func TestUseApart(t *testing.T) {
	h := newUseHome(t)
	if _, err := h.until(h.begin(-1), func(u *Adoption) error { return h.doAt(u, "notes/d", "inner") }); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"notes", "notes/d/e", "notes/d.before-mneme", "notes/d.before-mneme/e"} {
		_, err := h.until(h.begin(-1), func(u *Adoption) error { return h.doAt(u, dir, "outer") })
		if err == nil || !strings.Contains(err.Error(), "is in use by mneme") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// TestUseOfNothing: after the import of nothing, the store has no later changes.
func TestUseOfNothing(t *testing.T) {
	h := newUseHome(t)
	u := h.begin(-1)
	if _, err := h.until(u, func(u *Adoption) error { return h.doAt(u, "none", "none") }); err != nil {
		t.Fatal(err)
	}
	if n, err := u.Since(t.Context(), testOpen); n != 0 || err != nil {
		t.Errorf("%d changes, %v", n, err)
	}
}

// doAt uses a directory of the home for a store.
func (h *useHome) doAt(u *Adoption, dir, store string) error {
	h.Helper()
	found := &agentdirs.Found{Agent: DirAgent, Name: store, Dir: filepath.Join(h.home, dir)}
	return h.doFound(u, found, store)
}
