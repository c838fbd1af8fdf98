package agents

import (
	"os"
	"path/filepath"
	"testing"

	"mneme/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, nil)) }

// lockFile names the npm packages that the tests use.
var lockFile = filepath.Join("node", "package-lock.json")
