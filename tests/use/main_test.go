// Package use holds what people and programs may expect of one mount, and of the
// command line beside it.
package use

import (
	"os"
	"testing"

	"mneme/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, nil)) }
