package conflict

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mneme/tests/harness"
)

// TestAppends has eight sessions append to one file through eight mounts, each
// line by an open, a write and a close of its own. Every line must be there,
// once and whole; of those that are all the same, as many as were written.
func TestAppends(t *testing.T) {
	t.Parallel()
	const sessions = 8
	e := harness.NewEnv(t)
	lines := harness.Times(40, 1000)
	if e.Remote != nil {
		lines = harness.Times(10, 1000)
	}
	e.Store("notes", "--max-memory-bytes=1048576")
	began := time.Now()
	agents := make([]*harness.Agent, sessions)
	for i := range agents {
		agents[i] = e.Mount(t, "notes").Agent(t)
	}
	for name, line := range map[string]func(session, i int) string{
		"numbered": func(session, i int) string { return fmt.Sprintf("session %d line %d\n", session, i) },
		"equal":    func(int, int) string { return "the same\n" },
	} {
		var want []string
		var work sync.WaitGroup
		var slowest atomic.Int64
		for session, a := range agents {
			for i := range lines {
				want = append(want, line(session, i))
			}
			work.Go(func() {
				for i := range lines {
					start := time.Now()
					if r := a.Do(t, harness.Call{Op: "append", Path: name, Text: line(session, i)}); !r.OK() {
						t.Errorf("session %d, line %d: %v", session, i, r.Errno)
						return
					}
					for took := int64(time.Since(start)); ; {
						if most := slowest.Load(); most >= took || slowest.CompareAndSwap(most, took) {
							break
						}
					}
				}
			})
		}
		work.Wait()
		t.Logf("%s: %d lines after %v, the slowest in %v", name, len(want), time.Since(began).Round(time.Second), time.Duration(slowest.Load()).Round(time.Millisecond))
		got := slices.Collect(strings.Lines(e.Must(t, "cat", "notes:/"+name)))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d lines, want %d", name, len(got), len(want))
		}
		for _, a := range agents {
			if text := a.Must(t, harness.Call{Op: "read", Path: name}); strings.Count(text, "\n") > len(want) {
				t.Errorf("%s: a mount shows %d lines, want %d", name, strings.Count(text, "\n"), len(want))
			}
		}
	}
	for _, name := range []string{"numbered", "equal"} {
		if n := len(e.Versions(t, "notes:/"+name)); n != sessions*lines {
			t.Errorf("%s has %d versions, want %d", name, n, sessions*lines)
		}
	}
}
