//go:build !race && !racedaemon

package harness

// RaceFlags build the mneme under test. What the tests use of it themselves has the
// race detector only where they are built with it.
var RaceFlags []string

const cgo = 0

// Slowness is how much longer things may take.
const Slowness = 1
