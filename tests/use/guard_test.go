package use

import (
	"strings"
	"testing"

	"mneme/tests/harness"
)

// TestGuard holds that the guard of a store, set while it is mounted, holds back a file that
// loses most of its text and a burst of deletions, says how that is confirmed, keeps the
// bytes, and lets everything else pass.
func TestGuard(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	m := e.Mount(t, "notes")
	m.Sh(t, `seq 1 500 > plan.md; for i in 1 2 3 4; do echo $i > f$i; done`)
	e.Must(t, "store", "update", "notes", "--guard", "shrink=50%,deletes=2/min")
	if out := e.Must(t, "store", "show", "notes"); !strings.Contains(out, "Guard     shrink=50%,deletes=2/min\n") {
		t.Errorf("store show prints\n%s", out)
	}
	for what, script := range map[string]string{
		"shell":  `{ ! echo gone | cat > plan.md; } 2>&1`,
		"editor": `{ echo gone > .plan.md.swp; ! mv .plan.md.swp plan.md; } 2>&1`,
	} {
		if message := m.Sh(t, script); !strings.Contains(message, "Operation not permitted") {
			t.Errorf("%s: it is told %q", what, message)
		}
	}
	m.Sh(t, `test "$(wc -l < plan.md)" = 500; grep -q "/plan.md would go from 1892 to 5 bytes, and one version may take away at most 50 percent" .mneme/errors
		grep -q "mneme conflicts resolve" .mneme/errors; test "$(cat .mneme/conflicts/1/yours)" = gone; test "$(ls -d .mneme/conflicts/[0-9]* | wc -l)" = 1
		seq 1 400 > plan.md; rm f1 f2`)
	if message := m.Sh(t, `{ ! rm f3 f4; } 2>&1`); strings.Count(message, "Operation not permitted") != 2 {
		t.Errorf("what deletes too much is told %q", message)
	}
	m.Sh(t, `cat f3 f4; grep -q "mneme rm --confirm" .mneme/errors`)
	history := e.Versions(t, "notes:/plan.md")
	e.Must(t, "conflicts", "resolve", "notes", "1", "--take", "yours", "--if-version", history[len(history)-1].ID)
	e.Must(t, "rm", "--confirm", "notes:/f3")
	m.Sh(t, `test "$(cat plan.md)" = gone; ! test -e f3`)
	e.Must(t, "store", "update", "notes", "--guard", "off")
	m.Sh(t, `rm f4`)
}
