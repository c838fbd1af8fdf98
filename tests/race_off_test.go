//go:build !race && !racedaemon

package tests

// raceFlags build the mneme under test. What the tests use of it themselves has the
// race detector only where they are built with it.
var raceFlags []string

// slowness is how much longer things may take.
const slowness = 1
