package mount

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/internal/mountinfo"
)

// TestWarnExpired: images of stores that are mounted are named once they have expired.
func TestWarnExpired(t *testing.T) {
	dir := t.TempDir()
	err := os.Mkdir(filepath.Join(dir, ".mneme"), 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, ".mneme", "snapshot.json"), []byte(`{"format": 1, "store": "no\u001btes", "expires": "2026-01-01T00:00:00Z"}`), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	mounted := []mountinfo.Mount{{Type: "ext4", Dir: dir}, {Type: "erofs", Dir: "/nowhere"}, {Type: "erofs", Dir: dir}}
	for _, test := range []struct{ now, want string }{
		{"2025-12-31", ""},
		{"2026-01-01", `the snapshot of store no\x1btes that is mounted there has expired on 2026-01-01; unmount and remove it`},
	} {
		now, err := time.Parse(time.DateOnly, test.now)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		warnExpired(&app.App{Console: &term.Console{Err: &out}}, mounted, now)
		if have := out.String(); !strings.Contains(have, test.want) || (test.want == "") != (have == "") || strings.Count(have, "\n") > 1 {
			t.Errorf("on %s: %q; want %q", test.now, have, test.want)
		}
	}
}
