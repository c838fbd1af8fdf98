// Package conflict holds what becomes of files that several sessions use at once.
package conflict

import (
	"os"
	"testing"

	"mneme/tests/harness"
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]func(args []string) error{
		"agent": func(args []string) error {
			return harness.AgentChild(args, map[string]func(path, text string) (string, error){"episode": playPart})
		},
		"coherence": coherenceChild,
		"trace":     traceChild,
	}))
}
