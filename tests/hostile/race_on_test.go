//go:build race || racedaemon

package hostile

// raceFlags build the mneme under test.
var raceFlags = []string{"-race"}

// slowness is how much longer things may take.
const slowness = 4

// shortRuns is how often TestSystemCalls runs if nobody asks for more.
const shortRuns = 2
