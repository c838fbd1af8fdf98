// Package conflict holds what becomes of files that several sessions use at once.
package conflict

import (
	"os"
	"regexp"
	"testing"

	"mneme/tests/harness"
)

// notRaced are one session by itself, what the tests of histories do in their own process,
// and the matrix on the other backend.
var notRaced = regexp.MustCompile(`^Test(SessionsBase|MountHistoryCheckerCatches|EveryWayToWrite/on/AWS)(/|$)`)

func TestMain(m *testing.M) {
	harness.NotRaced = notRaced
	os.Exit(harness.Main(m, map[string]func(args []string) error{
		"agent": func(args []string) error {
			return harness.AgentChild(args, map[string]func(path, text string) (string, error){"episode": playPart})
		},
		"coherence": coherenceChild,
		"trace":     traceChild,
	}))
}
