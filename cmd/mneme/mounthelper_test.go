package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mneme/errkind"
)

func TestHelperArgs(t *testing.T) {
	for _, tc := range []struct {
		args, want string
		fake       bool
	}{
		{"notes /mnt/memory", "mount --background --at /mnt/memory notes", false},
		{"notes,book:ro /m -s -o rw,session=a1,_netdev,strict,owner=1000:1000,x-systemd.automount", "mount --background --at /m notes book:ro --session=a1 --strict --owner=1000:1000", false},
		{"notes /m -o ro,noauto,user,owner,comment=x -v", "mount --background --at /m notes --read-only", false},
		{"notes /m -fn -t mneme -N 1", "mount --background --at /m notes", true},
		{"notes", "", false},
		{"notes /m -o", "", false},
		{"notes /m --bad", "", false},
	} {
		got, fake, err := helperArgs(strings.Fields(tc.args))
		if (err != nil) != (tc.want == "") || err != nil && errkind.Of(err) != errkind.Invalid || strings.Join(got, " ") != tc.want || fake != tc.fake {
			t.Errorf("%s: %q, %v, %v", tc.args, got, fake, err)
		}
	}
}

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
	parser, err := newParser(t.Context(), &grammar, newApp(os.Stdin, os.Stdout, os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(strings.Fields(command)); err != nil || grammar.Mount.At != "/srv/mneme/notes" || !grammar.Mount.Owner.set {
		t.Errorf("%s: %v, %+v", command, err, grammar.Mount)
	}
}

// TestCacheDirIsAbsolute: a daemon leaves the directory that it was started in.
func TestCacheDirIsAbsolute(t *testing.T) {
	var grammar cli
	parser, err := newParser(t.Context(), &grammar, newApp(os.Stdin, os.Stdout, os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"mount", "notes", "--cache-dir", "c"}); err != nil || !filepath.IsAbs(grammar.Mount.CacheDir) {
		t.Errorf("it is %q, %v", grammar.Mount.CacheDir, err)
	}
}
