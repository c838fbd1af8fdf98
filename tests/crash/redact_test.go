package crash

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mneme/tests/harness"
)

// TestKillRedact: whenever a redaction is killed, the next one leaves nothing of the versions to
// erase in any file, and nothing else is lost.
func TestKillRedact(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	batch := func(text string) string {
		var changes []string
		for i := range 20 {
			size := []int{200, 3000}[i%2]
			changes = append(changes, fmt.Sprintf(`{"action":"put","path":"/d%d/f.md","content":"%s"}`, i, strings.Repeat(fmt.Sprint(text, " ", i, " "), size)))
		}
		return `{"changes":[` + strings.Join(changes, ",") + `]}`
	}
	usual := time.Duration(0)
	for round := range harness.Times(4, 100) {
		canary := fmt.Sprintf("CANARY-%d-7f3a9c", round)
		e.MustIn(t, batch(canary), "apply", "notes")
		e.MustIn(t, batch("other"), "apply", "notes")
		redact := []string{"redact", "notes", "--grep", canary, "--reason", "a test", "--yes"}
		if round == 0 { // this one is not killed
			start := time.Now()
			e.Must(t, redact...)
			usual = time.Since(start)
		} else {
			cmd := e.Command("", redact...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(rand.N(usual), func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait()
			late.Stop()
			if again := e.Mneme(redact...); again.Code != 0 && again.Code != 3 { // 3: the one that was killed had erased them
				t.Fatalf("round %d: once more: %v", round, again)
			}
		}
		err := filepath.WalkDir(e.Dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if strings.Contains(string(data), canary) {
				t.Errorf("round %d: %s has it", round, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := e.Must(t, "fsck", "notes"); !strings.Contains(got, "no problems") {
		t.Errorf("fsck says %s", got)
	}
	if got := e.Must(t, "cat", "notes:/d7/f.md"); !strings.HasPrefix(got, "other 7 ") {
		t.Errorf("a memory is %.20q", got)
	}
}
