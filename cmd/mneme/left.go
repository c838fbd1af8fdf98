package main

import (
	"maps"
	"slices"

	"mneme/daemon"
)

// printLeft tells the person where files are that were not committed.
func (a *app) printLeft(files []daemon.LeftFile) {
	const enough = 5 // of one store
	named := map[string]int{}
	for _, f := range files {
		place := printable(f.Store + ":" + f.Path)
		if f.Conflict == 0 {
			a.printf("Brought back from session %s, whose mount was killed: %s\n", printable(f.SessionID), place)
			continue
		}
		if named[f.Store]++; named[f.Store] > enough {
			continue
		}
		a.printf("Not in the history, but kept: %s of session %s; `%s conflicts show %s %d`\n",
			place, printable(f.SessionID), a.command(), shellWord(f.Store), f.Conflict)
	}
	for _, store := range slices.Sorted(maps.Keys(named)) {
		if n := named[store]; n > enough {
			a.printf("%d more are kept: `%s conflicts list %s`\n", n-enough, a.command(), shellWord(store))
		}
	}
}
