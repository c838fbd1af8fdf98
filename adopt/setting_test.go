package adopt

import (
	"os"
	"strings"
	"testing"
)

// TestUseMeetsAnotherSetting: a setting that is changed during the import stays.
func TestUseMeetsAnotherSetting(t *testing.T) {
	h := newUseHome(t)
	file, text := h.project+"/.claude/settings.local.json", `{"autoMemoryDirectory": "/elsewhere"}`
	u := h.begin(-1)
	u.reached = func(point string) {
		if point == "mounted" {
			h.write(file, text)
		}
	}
	_, err := h.until(u, func(u *Adoption) error { return h.do(u, "claude-code") })
	if now, readErr := os.ReadFile(file); err == nil || !strings.Contains(err.Error(), "was changed while the directory was imported; all is as it was") || readErr != nil || string(now) != text {
		t.Errorf("%v; the settings are %s, %v", err, now, readErr)
	}
}
