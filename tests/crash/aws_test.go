package crash

import "testing"

// TestOnAWS runs the tests of what comes to its end once
// more, on S3 and DynamoDB instead of the embedded store.
func TestOnAWS(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"ScratchSurvivesKill", TestScratchSurvivesKill}, {"NothingVanishesAtTheEnd", TestNothingVanishesAtTheEnd},
		{"StoppedDaemon", TestStoppedDaemon}, {"KeeperRemembers", TestKeeperRemembers},
	} {
		t.Run(test.name, test.run)
	}
}
