package use

import (
	"strings"
	"testing"

	"mneme/tests/harness"
)

// TestUndoBesideMounts takes back the changes of the session of one mount, while that of another
// one continues to write to the same file: nothing that it writes is lost, and both mounts show
// the same state.
func TestUndoBesideMounts(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	agent := e.Mount(t, "notes")
	other := e.Mount(t, "notes")
	other.Sh(t, `seq 20 > log.md; mkdir d; echo f > d/f; echo g > d/g; echo plan > plan.md`)
	agent.Eventually(t, `test -e plan.md`)
	agent.Sh(t, `sed -i 's/^5$/broken/' log.md; rm -r d; mv plan.md old.md; echo new > new.md`)
	other.Eventually(t, `test -e new.md && grep -q broken log.md`)
	broken := agent.Sh(t, `ls`)

	wait := other.Background(t, `for i in $(seq 25); do echo "line $i" >> log.md; done`)
	out := e.Must(t, "undo", "notes", "--session", agent.Session)
	if r := wait(); r.Code != 0 {
		t.Fatalf("the other session: %v", r)
	}
	for name, m := range map[string]*harness.Mount{"agent": agent, "other": other} {
		m.Eventually(t, `test -e d/g && ! test -e new.md && ! grep -q broken log.md && grep -q '^line 25$' log.md`)
		if got := m.Sh(t, `head -n 20 log.md | cmp - <(seq 20) && tail -n +21 log.md | cmp - <(seq 25 | sed 's/^/line /') && cat d/f d/g plan.md && ls`); got != "f\ng\nplan\nd\nlog.md\nplan.md\n" {
			t.Errorf("the mount of the %s shows %q", name, got)
		}
	}

	_, undo, ok := strings.Cut(out, "To take this back: mneme ")
	if !ok {
		t.Fatalf("undo prints %q", out)
	}
	e.Must(t, strings.Fields(undo)...)
	agent.Eventually(t, `test -e new.md && grep -q broken log.md`)
	if got := agent.Sh(t, `ls`); got != broken {
		t.Errorf("once the undo is taken back there are %q, and were %q", got, broken)
	}
}
