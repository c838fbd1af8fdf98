package agents

import "testing"

// TestOnAWS runs the test of an agent at a server once more, on S3 and DynamoDB instead of the
// embedded store.
func TestOnAWS(t *testing.T) {
	t.Parallel()
	t.Run("ClientOfServer", TestClientOfServer)
}
