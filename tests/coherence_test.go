package tests

import (
	"strconv"
	"testing"
	"time"
)

// TestCoherence changes files through one mount at random while they are read
// through another, with and without opens. Every look must find one content, and
// one that the path held at most the refresh interval ago.
func TestCoherence(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"notes:ro", "notes"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			w, r := e.mount(t, "notes"), e.mount(t, store)
			// The interval, and what a busy machine takes to run a process.
			bound := time.Second + slowness*2*time.Second
			c := w.child(t, "coherence", w.dir, r.dir, strconv.Itoa(times(400, 10_000)), "7", bound.String())
			if err := c.wait(t, 3*longPatience); err != nil {
				t.Errorf("%v\n%s\n%s", err, c.stdout, c.stderr)
			}
			t.Log(c.stdout)
		})
	}
}
