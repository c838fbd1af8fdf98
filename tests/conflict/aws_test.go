package conflict

import "testing"

// TestOnAWS runs the tests of what sessions do to each other once
// more, on S3 and DynamoDB instead of the embedded store.
func TestOnAWS(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"MountsOfOneStore", TestMountsOfOneStore}, {"SmallRaces", TestSmallRaces}, {"TwoSessionsAtOneFile", TestTwoSessionsAtOneFile},
		{"DirectoriesOfTwoSessions", TestDirectoriesOfTwoSessions}, {"Appends", TestAppends},
	} {
		t.Run(test.name, test.run)
	}
}
