package main

import (
	"os"
	"path/filepath"

	"mneme/conflict"
)

// conflictsVariable names a directory that keeps conflicts instead of the usual
// one.
const conflictsVariable = "MNEME_CONFLICTS"

// conflictsName is the directory of conflicts, beside the stores they are of.
const conflictsName = "conflicts"

// conflictsDir is where the conflicts of a library's stores are kept, each in a
// directory below it named by the store's id. local is that of a library which
// lies on this machine's disk; "" where it does not, and conflicts belong to the
// user who writes.
func conflictsDir(local string) (string, error) {
	if dir := os.Getenv(conflictsVariable); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", usagef("$%s is %q; want an absolute path", conflictsVariable, dir)
		}
		return dir, nil
	}
	if local != "" {
		return filepath.Join(local, conflictsName), nil
	}
	state, err := xdgDir("XDG_STATE_HOME", ".local/state")
	return filepath.Join(state, "mneme", conflictsName), err
}

// conflictsDirOf is the directory of the conflicts of a location's stores.
func conflictsDirOf(at location) (string, error) {
	local := ""
	if e, ok := at.(embedded); ok {
		local = e.dir
	}
	return conflictsDir(local)
}

// conflictsOf returns the conflicts of a store.
func (l *library) conflictsOf(storeID string) *conflict.Store {
	return conflict.New(filepath.Join(l.conflictsDir, storeID))
}
