package app

import (
	"os"
	"os/exec"

	"mneme/cmd/mneme/term"
)

// Command is the start of a command line for this mneme and the same stores.
func (a *App) Command() string {
	name := "mneme"
	if _, err := exec.LookPath(name); err != nil {
		if self, err := os.Executable(); err == nil {
			name = self
		}
	}
	if a.URL == nil || *a.URL == os.Getenv(URLVariable) {
		return name
	}
	return name + " --url " + term.ShellWord(*a.URL)
}
