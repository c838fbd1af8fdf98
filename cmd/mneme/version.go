package main

import (
	"context"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// version is the one that this program was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

func (c *versionCmd) Run(_ context.Context, a *app) error {
	if a.json {
		return a.printJSON(struct {
			Version string `json:"version"`
			Go      string `json:"go"`
		}{version(), runtime.Version()})
	}
	a.printf("mneme %s (%s %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}
