package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/upkeep"
)

// tampering is one change behind mneme's back.
type tampering struct {
	what string       // "flip a bit of commits.record", for a reader of the failure
	do   func() error // an error says that the place does not take it
}

// tampered is a place whose rows and files are changed, one at a time.
type tampered interface {
	// pick returns a change that chance has chosen, nil where it has chosen none.
	pick(r *rand.Rand) *tampering
	// isEvidence reports whether a change has to be found.
	isEvidence(what string) bool
	// isFound reports whether the exit code of fsck tells of a change.
	isFound(what string, code int) bool
	// restore makes all as it was before a change.
	restore()
	url() string
}

// fsckIn runs fsck in this process, and returns its exit code and output.
func fsckIn(t testing.TB, url string, cmd upkeep.FsckCmd) (code int, output string) {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	a := app.New(os.Stdin, out, out)
	a.URL, a.JSON = &url, true
	err = cmd.Run(t.Context(), a)
	if flushErr := a.Out.Flush(); flushErr != nil {
		t.Fatal(flushErr)
	}
	if err != nil {
		a.Report(err)
	}
	text, readErr := os.ReadFile(out.Name())
	if readErr != nil {
		t.Fatal(readErr)
	}
	return app.Classify(err).Code, string(text)
}

// tamperings is how many changes are tried: MNEME_RUNS, 10,000 as torture, else a few.
func tamperings(t *testing.T, few int) int {
	if n, err := strconv.Atoi(os.Getenv("MNEME_RUNS")); err == nil {
		return n
	}
	if os.Getenv("MNEME_TORTURE") != "" {
		return 10_000
	}
	return few
}

// findTamperings makes n changes, each in a place that is as it was, and wants fsck to
// find every one.
func findTamperings(t *testing.T, p tampered, n int) {
	t.Helper()
	if code, output := fsckIn(t, p.url(), upkeep.FsckCmd{}); code != 0 {
		t.Fatalf("before: exit code %d\n%s", code, output)
	}
	const seed = 20261126
	r := rand.New(rand.NewPCG(seed, 0))
	tried, missed := map[string]int{}, map[string]int{}
	for done := 0; done < n; {
		change := p.pick(r)
		if change == nil {
			continue
		}
		if err := change.do(); err != nil {
			p.restore()
			continue
		}
		done++
		kind, _, _ := strings.Cut(change.what, ":")
		tried[kind]++
		code, output := fsckIn(t, p.url(), upkeep.FsckCmd{})
		if !p.isFound(change.what, code) {
			if missed[kind]++; missed[kind] == 1 && p.isEvidence(change.what) {
				t.Errorf("tampering %d is not found: %s: exit code %d\n%s", done, change.what, code, output)
			}
		}
		p.restore()
	}
	if code, output := fsckIn(t, p.url(), upkeep.FsckCmd{}); code != 0 {
		t.Errorf("afterwards: exit code %d\n%s", code, output)
	}
	kinds := make([]string, 0, len(tried))
	for kind, times := range tried {
		kinds = append(kinds, fmt.Sprintf("%s: %d, missed %d", kind, times, missed[kind]))
	}
	slices.Sort(kinds)
	t.Logf("%d tamperings of %d kinds, seed %d\n%s", n, len(kinds), seed, strings.Join(kinds, "\n"))
}

// mutate changes bytes: it flips a bit, takes some away or adds some.
func mutate(r *rand.Rand, data []byte) (verb string, other []byte) {
	other = slices.Clone(data)
	op := r.IntN(3)
	if len(data) == 0 {
		op = 2
	}
	switch op {
	case 0:
		other[r.IntN(len(other))] ^= 1 << r.IntN(8)
		return "flip", other
	case 1:
		return "truncate", other[:r.IntN(len(other))]
	default:
		for range 1 + r.IntN(8) {
			other = append(other, byte(r.Uint32()))
		}
		return "extend", other
	}
}

// tamperedHome gives this process a home of its own, for the things that a machine remembers.
func tamperedHome(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, name := range []string{"XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(name, filepath.Join(home, name))
	}
}

// TestTamperingsEmbedded changes what an embedded store has in its database and its
// files.
func TestTamperingsEmbedded(t *testing.T) {
	tamperedHome(t)
	findTamperings(t, newTamperedLibrary(t), tamperings(t, 100))
}
