// Package xdg finds the user's own directories of the XDG Base Directory
// Specification, each with a part of mneme's own below it.
package xdg

import (
	"fmt"
	"os"
	"path/filepath"

	"mneme/errkind"
)

// ErrNoHome says that neither $HOME nor the variable of a directory is set.
var ErrNoHome = errkind.New(errkind.Invalid, "$HOME is not set, so there is no default place")

// Data returns the directory for data that a person wants to keep: mneme, below
// $XDG_DATA_HOME. ErrNoHome.
func Data() (string, error) { return below("XDG_DATA_HOME", ".local/share") }

// State returns the directory for data that outlives a process but is this machine's alone:
// mneme, below $XDG_STATE_HOME. ErrNoHome.
func State() (string, error) { return below("XDG_STATE_HOME", ".local/state") }

// Cache returns the directory for data that can be fetched again: mneme, below
// $XDG_CACHE_HOME. ErrNoHome.
func Cache() (string, error) { return below("XDG_CACHE_HOME", ".cache") }

// below returns mneme's part of a base directory. The specification says to ignore
// relative paths.
func below(variable, standard string) (string, error) {
	const own = "mneme"
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, own), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", fmt.Errorf("%w; set it, or $%s", ErrNoHome, variable)
	}
	return filepath.Join(home, standard, own), nil
}
