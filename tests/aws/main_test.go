// Package aws tests how a mount behaves when S3 and DynamoDB are far, slow, lost or wrong.
// TestOnAWS in the other packages tests how it behaves when they serve well.
package aws

import (
	"os"
	"testing"

	"mneme/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, nil)) }
