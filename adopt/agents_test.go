package adopt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUseOfEachAgent puts each agent, in its documented layout, on a store, and undoes that.
func TestUseOfEachAgent(t *testing.T) {
	for name, test := range map[string]struct {
		files    map[string]string // in addition to those of newUseHome
		imported int
	}{
		"claude-code": {nil, 2},
		"codex":       {map[string]string{".codex/memories/memory_summary.md": "# Index\n", ".codex/memories/MEMORY.md": "# Index\n"}, 2},
		"gemini":      {map[string]string{".gemini/projects.json": `{"projects": {"PROJECT": "p"}}`, ".gemini/tmp/p/memory/MEMORY.md": "# Index\n"}, 1},
		"letta-files": {nil, 1},
		"openclaw": {map[string]string{
			".openclaw/openclaw.json": "{\"agents\": {}}\n", ".openclaw/workspace/AGENTS.md": "# Agents\n", ".openclaw/workspace/memory/2026-11-26.md": "day\n",
		}, 2},
		"openclaw onboarded": {map[string]string{
			".openclaw/openclaw.json":       `{"agents": {"defaults": {"workspace": "HOME/.openclaw/workspace"}, "entries": {"main": {"name": "main", "workspace": "HOME/.openclaw/workspace"}}}}` + "\n",
			".openclaw/workspace/AGENTS.md": "# Agents\n", ".openclaw/workspace/SOUL.md": "# Soul\n", ".openclaw/workspace/.git/HEAD": "ref: refs/heads/master\n",
		}, 3},
	} {
		agent, _, _ := strings.Cut(name, " ")
		t.Run(name, func(t *testing.T) {
			h := newUseHome(t)
			for name, text := range test.files {
				h.write(filepath.Join(h.home, name), strings.NewReplacer("PROJECT", h.project, "HOME", h.home).Replace(text))
			}
			before := h.snapshot()
			u := h.begin(-1)
			_, err := h.until(u, func(u *Adoption) error { return h.do(u, agent) })
			h.must(err)
			if n := u.Imported.Files; n != test.imported {
				t.Errorf("%d files imported, want %d", n, test.imported)
			}
			if s := u.Setting; s != nil {
				if text, err := os.ReadFile(s.File); err != nil || !strings.Contains(string(text), s.After) {
					t.Errorf("%s is %s, %v, want %s in it", s.File, text, err, s.After)
				}
			} else if _, err := os.Stat(u.Backup); err != nil {
				t.Error(err)
			}
			_, err = h.until(h.begin(-1), h.undo)
			h.must(err)
			h.wantAsBefore("after undoing it", before)
		})
	}
}
