// Package aws holds what a mount does when S3 and DynamoDB are far, slow, lost or
// wrong. What it does when they serve well, TestOnAWS holds in the other packages.
package aws

import (
	"os"
	"testing"

	"mneme/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, nil)) }
