package view

import (
	"mneme/cmd/mneme/term"
	"mneme/versionlog"
)

// OpColors are the colours of operations.
var OpColors = map[versionlog.Op]string{
	versionlog.OpCreated: term.Green, versionlog.OpModified: term.Yellow, versionlog.OpRenamed: term.Cyan, versionlog.OpDeleted: term.Red,
}

// LogPath is the path of a version in a log.
func LogPath(v *versionlog.Version) string {
	switch {
	case v.Redacted():
		return erasedPath
	case v.Op == versionlog.OpRenamed:
		return v.From + " → " + v.Path
	}
	return v.Path
}

// ShownPath is the path of a version, unless it was erased.
func ShownPath(v versionlog.Version) string {
	if v.Redacted() {
		return erasedPath
	}
	return v.Path
}

const erasedPath = "(erased)"
