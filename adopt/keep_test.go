package adopt

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUndoKeepsChanges: wherever Undo is cut off, the directory gets the changes of the
// store, and everything else is restored.
func TestUndoKeepsChanges(t *testing.T) {
	for name, agent := range map[string]string{"a directory": DirAgent, "settings": "claude-code", "a missing place": "codex"} {
		t.Run(name, func(t *testing.T) {
			for n, point := 0, "begun"; point != ""; n++ {
				h := newUseHome(t)
				_, err := h.until(h.begin(-1), func(u *Adoption) error { return h.do(u, agent) })
				h.must(err)
				h.commit("/new/x.md", "new")
				want := map[string]string{"new/x.md": "new"}
				if agent == DirAgent {
					h.commit("/a.md", "changed")
					h.drop("/d/e/b.md")
					maps.Copy(want, map[string]string{"a.md": "changed", "bin": "\xff\x00", "d/run.sh": "#!/bin/sh\n", "d/e/b.md": ""})
				}
				keep := func(u *Adoption) error { u.KeepChanges = true; return h.undo(u) }
				point, err = h.until(h.begin(n), keep)
				h.must(err)
				_, err = h.until(h.begin(-1), keep)
				h.must(err)
				for rel, text := range want {
					data, err := os.ReadFile(filepath.Join(h.found(agent).Dir, rel))
					if string(data) != text || (text == "") != (err != nil) {
						t.Errorf("cut off at %q: %s holds %q, %v", point, rel, data, err)
					}
				}
			}
		})
	}
}

// TestUndoMeetsChangesOfBoth: a file that was changed in the store and in the directory stays
// as it is in each.
func TestUndoMeetsChangesOfBoth(t *testing.T) {
	h := newUseHome(t)
	_, err := h.until(h.begin(-1), func(u *Adoption) error { return h.do(u, "claude-code") })
	h.must(err)
	h.commit("/build.md", "theirs")
	file := h.home + "/.claude/projects/" + projectKeyOf(h.project) + "/memory/build.md"
	h.write(file, "mine")
	_, err = h.until(h.begin(-1), func(u *Adoption) error { u.KeepChanges = true; return h.undo(u) })
	if text, readErr := os.ReadFile(file); !errors.Is(err, ErrUndoHasWay) || !strings.Contains(err.Error(), "build.md") || string(text) != "mine" {
		t.Errorf("%v; the file holds %q, %v", err, text, readErr)
	}
}
