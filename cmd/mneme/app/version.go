package app

import "runtime/debug"

// The Makefile sets a tag or short commit of the source, and the commit.
var buildTag, Commit string

// Version is the version of this mneme.
func Version() string {
	if buildTag != "" {
		return buildTag
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version // of `go install`
	}
	return "devel"
}
