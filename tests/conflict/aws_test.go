package conflict

import (
	"testing"

	"mneme/internal/testing/turn"
	"mneme/tests/harness"
)

// TestOnAWS runs the tests of conflicts between sessions once more, on S3 and DynamoDB instead of
// the embedded store.
func TestOnAWS(t *testing.T) {
	t.Parallel()
	type test struct {
		name string
		run  func(*testing.T)
	}
	tests := []test{
		{"MountsOfOneStore", TestMountsOfOneStore}, {"SmallRaces", TestSmallRaces}, {"TwoSessionsAtOneFile", TestTwoSessionsAtOneFile},
		{"DirectoriesOfTwoSessions", TestDirectoriesOfTwoSessions}, {"Appends", TestAppends},
	}
	if harness.Torture() {
		tests = append(tests, test{"Replicas", TestReplicas})
	}
	for i, test := range tests {
		if turn.Due(i, 2) {
			t.Run(test.name, test.run)
		}
	}
}
