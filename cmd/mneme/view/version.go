package view

import (
	"strconv"

	"mneme/cmd/mneme/app"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/versionlog"
)

// VersionCount is a number of versions in words.
func VersionCount(n int) string {
	if n == 1 {
		return "1 version"
	}
	return strconv.Itoa(n) + " versions"
}

// PrintVersion prints the version that a command made: its id for a shell variable, or
// JSON.
func PrintVersion(a *app.App, st *memory.Store, v versionlog.Version) error {
	if a.JSON {
		return a.PrintJSON(jsonview.NewVersion(st.Info().ID, v))
	}
	a.Printf("%s\n", v.ID)
	return nil
}
