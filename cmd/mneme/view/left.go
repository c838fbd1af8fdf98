package view

import (
	"maps"
	"slices"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/daemon"
	"mneme/internal/quote"
)

// PrintLeft tells the person of files that were not committed.
func PrintLeft(a *app.App, files []daemon.LeftFile) {
	const enough = 5 // of one store
	named := map[string]int{}
	for _, f := range files {
		place := quote.Text(f.Store + ":" + f.Path)
		if f.Conflict == 0 {
			a.Printf("Brought back from session %s, whose mount was killed: %s\n", quote.Text(f.SessionID), place)
			continue
		}
		if named[f.Store]++; named[f.Store] > enough {
			continue
		}
		a.Printf("Not in the history, but kept: %s of session %s; `%s conflicts show %s %d`\n",
			place, quote.Text(f.SessionID), a.Command(), term.ShellWord(f.Store), f.Conflict)
	}
	for _, store := range slices.Sorted(maps.Keys(named)) {
		if n := named[store]; n > enough {
			a.Printf("%d more are kept: `%s conflicts list %s`\n", n-enough, a.Command(), term.ShellWord(store))
		}
	}
}
