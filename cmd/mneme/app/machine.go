package app

import (
	"mneme/backend"
	"mneme/forget"
)

// MachineOf is the data of a library's stores that this machine keeps.
func MachineOf(lib *backend.Library) *forget.Machine {
	return &forget.Machine{Conflicts: lib.Conflicts, ImportsDir: lib.ImportsDir(), EraseOrphans: lib.EraseOrphans(), EraseLeft: lib.EraseLeft(), Behind: lib.ForgetBehind()}
}
