package main

import (
	"mneme/cmd/mneme/term"
	"mneme/versionlog"
)

var opColors = map[versionlog.Op]string{
	versionlog.OpCreated: term.Green, versionlog.OpModified: term.Yellow, versionlog.OpRenamed: term.Cyan, versionlog.OpDeleted: term.Red,
}

// logPath is where a version took place.
func logPath(v *versionlog.Version) string {
	switch {
	case v.Redacted():
		return erasedPath
	case v.Op == versionlog.OpRenamed:
		return v.From + " → " + v.Path
	}
	return v.Path
}

// shownPath is the path of a version, if there is one.
func shownPath(v versionlog.Version) string {
	if v.Redacted() {
		return erasedPath
	}
	return v.Path
}

const erasedPath = "(erased)"
