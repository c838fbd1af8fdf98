package main

import (
	"os"
	"strings"
	"testing"

	"mneme/cmd/mneme/app"
)

// TestNothingIsEmpty: a condition, a filter or a place that is given and empty is none.
func TestNothingIsEmpty(t *testing.T) {
	for _, args := range [][]string{
		{"verify", "notes", "--against", ""}, {"write", "notes:/a", "--if-version", ""}, {"write", "notes:/a", "--if-sha256="}, {"export", "notes", "--dir", ""},
		{"export", "notes", "--at="}, {"log", "notes", "--session="}, {"log", "notes", "--grep", ""}, {"fsck", ""}, {"why", "notes", ""}, {"mount", "notes", ""},
		{"serve", "--host", ""}, {"key", "create", "k", "--grant="}, {"fsck", "--token-file="},
	} {
		a := app.New(os.Stdin, os.Stdout, os.Stderr)
		if err := execute(t.Context(), a, args); app.Classify(err).Code != app.Usage.Code || !strings.HasSuffix(err.Error(), "is empty; want a value, or leave it out") {
			t.Errorf("%q: %v", args, err)
		}
	}
}
