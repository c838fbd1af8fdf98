package backend

import (
	"os"
	"strings"
	"testing"

	"mneme/internal/testing/awstest"
)

// TestMain gives the tests a home of their own.
func TestMain(m *testing.M) {
	home, err := os.MkdirTemp("", "mneme-backend-*")
	if err != nil {
		panic(err)
	}
	if err := awstest.KeepServers(); err != nil {
		panic(err)
	}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "MNEME_") && name != "MNEME_NOSKIP" && name != "MNEME_TEST_SERVERS" {
			_ = os.Unsetenv(name)
		}
	}
	_ = os.Setenv("HOME", home)
	code := m.Run()
	_ = os.RemoveAll(home)
	os.Exit(code)
}
