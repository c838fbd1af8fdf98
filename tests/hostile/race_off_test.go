//go:build !race && !racedaemon

package hostile

// raceFlags build the mneme under test.
var raceFlags []string

// slowness is how much longer things may take.
const slowness = 1

// shortRuns is how often TestSystemCalls runs if nobody asks for more.
const shortRuns = 5
