//go:build !race

package tests

// raceFlags build the mneme under test as the tests themselves are built.
var raceFlags []string

// slowness is how much longer things may take.
const slowness = 1
