package gateway

import (
	"strings"
	"sync"
	"testing"

	"mneme/versionlog"
)

// TestRecent: the last commits are kept within all three bounds.
func TestRecent(t *testing.T) {
	versions := make([]versionlog.Version, maxRecentVersions/2+1)
	for name, test := range map[string]struct {
		one  recorded
		kept int
	}{
		"small ones":        {recorded{&versionlog.Commit{}, 100}, maxRecent},
		"of many versions":  {recorded{&versionlog.Commit{Versions: versions}, 100}, 1},
		"of many bytes":     {recorded{&versionlog.Commit{Message: strings.Repeat("x", 100)}, maxRecentBytes/3 - 1}, 3},
		"of too many bytes": {recorded{&versionlog.Commit{}, maxRecentBytes + 1}, 0},
	} {
		f := newFeed(t.Context(), &sync.WaitGroup{}, nil)
		for seq := range uint64(2 * maxRecent) {
			c := *test.one.Commit
			c.Seq = seq + 1
			f.addLocked(recorded{&c, test.one.bytes})
		}
		if len(f.recent) != test.kept {
			t.Errorf("%s: %d are kept, want %d", name, len(f.recent), test.kept)
		}
	}
}
