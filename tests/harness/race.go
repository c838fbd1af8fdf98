package harness

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"mneme/internal/testing/turn"
)

// RaceVariable says which tests use a mneme built with the race detector for mounts and
// servers: none, unless it is set; "all"; or "most", all but those that NotRaced names.
const RaceVariable = "MNEME_RACE"

// NotRaced matches the names of a package's tests in which the race detector has nothing
// to find: one program on a mount, a request that is refused at once, or the same test on
// the other backend. A package sets it before its tests run.
var NotRaced = regexp.MustCompile(`^$`)

var race = os.Getenv(RaceVariable)

// raceFlags build a mneme with the race detector. They leave out the code of SQLite, as
// the Makefile does.
var raceFlags = []string{"-race", "-gcflags=github.com/ncruces/go-sqlite3-wasm/v6/...=-race=false"}

// slow is how much longer things may take with the race detector.
const slow = 4

// Slowness is how much longer waits may take that only bound a test that hangs.
var Slowness = slowness()

func slowness() time.Duration {
	if race == "" {
		return 1
	}
	return slow
}

// SlownessOf returns how much longer things may take that a test measures.
func SlownessOf(t testing.TB) time.Duration {
	if Raced(t) {
		return slow
	}
	return 1
}

// plain is the part of a subtest's name that has no race detector.
const plain = "plain"

// Raced reports whether the mneme that serves the mounts of a test has the race detector.
func Raced(t testing.TB) bool {
	switch race {
	case "":
		return false
	case "all":
		return true
	}
	return !NotRaced.MatchString(t.Name()) && !strings.Contains(t.Name()+"/", "/"+plain+"/")
}

// BothDaemons reports whether this run uses a mneme with the race detector for most tests,
// and one without it for the others, as CI does.
func BothDaemons() bool { return race == "most" }

// EachDaemon runs a test, and where most tests have the race detector, once with it and
// once without it, or in CI one of the two by turns: the test measures, or makes less of its
// requests with it.
func EachDaemon(t *testing.T, test func(t *testing.T)) {
	if !BothDaemons() {
		test(t)
		return
	}
	for i, daemon := range []string{"raced", plain} {
		if turn.Due(i, 2) {
			t.Run(daemon, test)
		}
	}
}
