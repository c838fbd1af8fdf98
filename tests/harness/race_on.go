//go:build race || racedaemon

package harness

// RaceFlags build the mneme under test. What the tests use of it themselves has the
// race detector only where they are built with it. They leave out the code of SQLite, as
// the Makefile does.
var RaceFlags = []string{"-race", "-gcflags=github.com/ncruces/go-sqlite3-wasm/v6/...=-race=false"}

const cgo = 1

// Slowness is how much longer things may take.
const Slowness = 4
