package crash

import (
	"testing"

	"mneme/internal/testing/turn"
)

// TestOnAWS runs the tests of mounts that come to their end once more, on S3 and DynamoDB instead
// of the embedded store.
func TestOnAWS(t *testing.T) {
	t.Parallel()
	for i, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"ScratchSurvivesKill", TestScratchSurvivesKill}, {"NothingVanishesAtTheEnd", TestNothingVanishesAtTheEnd},
		{"StoppedDaemon", TestStoppedDaemon}, {"KeeperRemembers", TestKeeperRemembers},
	} {
		if turn.Due(i, 2) {
			t.Run(test.name, test.run)
		}
	}
}
