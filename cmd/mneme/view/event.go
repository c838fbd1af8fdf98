package view

import (
	"bytes"

	"mneme/cmd/mneme/term"
	"mneme/jsonview"
	"mneme/versionlog"
)

// EventLine is a commit as a line of .mneme/events, which is a line of `mneme log --json`.
func EventLine(c *versionlog.Commit) ([]byte, error) {
	var line bytes.Buffer
	err := term.WriteJSON(&line, jsonview.NewCommit(c))
	return line.Bytes(), err
}
