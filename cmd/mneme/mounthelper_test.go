package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"mneme/cmd/mneme/app"
)

// TestServiceUnit holds that the command of the unit for systemd is one of mneme's.
func TestServiceUnit(t *testing.T) {
	unit, err := os.ReadFile(filepath.Join("..", "..", "contrib", "systemd", "mneme@.service"))
	if err != nil {
		t.Fatal(err)
	}
	_, command, found := strings.Cut(string(unit), "ExecStart=/usr/local/bin/mneme ")
	command, _, _ = strings.Cut(command, "\n")
	if !found || !strings.Contains(string(unit), "\nType=notify\n") {
		t.Fatalf("the unit is\n%s", unit)
	}
	command = strings.NewReplacer("%i", "notes", "$MNEME_OPTIONS", "--session host-1 --owner 1000:1000").Replace(command)
	var grammar cli
	parser, err := newParser(t.Context(), &grammar, app.New(os.Stdin, os.Stdout, os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(strings.Fields(command)); err != nil || grammar.Mount.At != "/srv/mneme/notes" || reflect.ValueOf(grammar.Mount.Owner).IsZero() {
		t.Errorf("%s: %v, %+v", command, err, grammar.Mount)
	}
}

// TestCacheDirIsAbsolute: a daemon leaves the directory that it was started in.
func TestCacheDirIsAbsolute(t *testing.T) {
	var grammar cli
	parser, err := newParser(t.Context(), &grammar, app.New(os.Stdin, os.Stdout, os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"mount", "notes", "--cache-dir", "c"}); err != nil || !filepath.IsAbs(grammar.Mount.CacheDir) {
		t.Errorf("it is %q, %v", grammar.Mount.CacheDir, err)
	}
}
