package fusedev

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fusermount3 does not get the signals that a terminal sends to this process and what
// it has started: a second Ctrl-C must not keep it from unmounting.
func TestHelperIsInNoGroupOfOurs(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\ncut -d ' ' -f 5 /proc/$$/stat > " + dir + "/group\nexit 1\n"
	if err := os.WriteFile(filepath.Join(dir, "fusermount3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for name, run := range map[string]func() error{
		"mount":   func() error { _, err := mountByHelper(dir, nil); return err },
		"unmount": func() error { return detachByHelper(dir) },
	} {
		if err := run(); err == nil {
			t.Errorf("%s: want the error of fusermount3", name)
		}
		text, err := os.ReadFile(filepath.Join(dir, "group"))
		if err != nil {
			t.Fatal(err)
		}
		if group, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || group == unix.Getpgrp() {
			t.Errorf("%s: fusermount3 is in the group %s, as this process", name, text)
		}
	}
}
