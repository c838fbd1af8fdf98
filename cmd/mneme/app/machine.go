package app

import (
	"mneme/archive"
	"mneme/backend"
	"mneme/forget"
)

// MachineOf is the data of a library's stores that this machine keeps.
func MachineOf(lib *backend.Library) *forget.Machine {
	return &forget.Machine{Conflicts: lib.Conflicts, Importing: Importing(lib), EraseOrphans: lib.EraseOrphans(), EraseLeft: lib.EraseLeft(), Behind: lib.ForgetBehind()}
}

// Importing returns a function that reports whether an import into a store has begun on this
// machine and not ended.
func Importing(lib *backend.Library) func(storeID string) (bool, error) {
	return func(storeID string) (bool, error) { return archive.HasBegun(lib.ImportsDir(), storeID) }
}
