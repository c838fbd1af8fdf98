package conflict

import (
	"strconv"
	"testing"
	"time"

	"mneme/internal/testing/turn"
	"mneme/tests/harness"
)

// TestCoherence changes files through one mount at random while they are read
// through another, with and without opens. Every look must find one content, and
// one that the path held at most the refresh interval ago.
func TestCoherence(t *testing.T) {
	t.Parallel()
	harness.EachDaemon(t, readCoherently)
}

func readCoherently(t *testing.T) {
	for i, store := range []string{"notes:ro", "notes"} {
		if !turn.Due(i+turn.Number()/2, 2) { // EachDaemon takes turns, too
			continue
		}
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			e := harness.NewEnv(t)
			w, r := e.Mount(t, "notes"), e.Mount(t, store)
			// The interval, and what a busy machine takes to run a process.
			bound := time.Second + harness.SlownessOf(t)*2*time.Second
			c := w.Child(t, "coherence", w.Dir, r.Dir, strconv.Itoa(harness.Times(400, 10_000)), "7", bound.String())
			if err := c.Wait(t, 3*harness.LongPatience); err != nil {
				t.Errorf("%v\n%s\n%s", err, c.Stdout, c.Stderr)
			}
			t.Log(c.Stdout)
		})
	}
}
