package history_test

import (
	"testing"

	"mneme/internal/testing/memtest"
	"mneme/memory"
)

// fixture has further methods in this package.
type fixture struct{ *memtest.Fixture }

func newFixture(t *testing.T, opts *memory.StoreOptions) *fixture {
	t.Helper()
	return &fixture{memtest.New(t, opts)}
}
