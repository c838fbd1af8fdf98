package use

import (
	"strings"
	"syscall"
	"testing"

	"mneme/tests/harness"
)

// TestPlacesInMounts holds that a path in a mount names the memory that is seen
// there, also by way of a symbolic link or a bind mount, whatever stores the
// command would look at otherwise.
func TestPlacesInMounts(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes", "docs:ro")
	says := func(script, want string) {
		t.Helper()
		if out := m.Sh(t, script); out != want {
			t.Errorf("%s\nsays %q, want %q", script, out, want)
		}
	}
	m.Sh(t, "mkdir -p d; echo one > d/f; echo two > d/f; echo gone > gone; rm gone")
	// Without MNEME_URL the user's own stores would be meant.
	says(`unset MNEME_URL; cd d
		mneme cat ./f; mneme cat ./f@3; mneme log ../gone --json | wc -l; mneme ls ..; mneme ls "$PWD"
		mneme restore ./f@3 > /dev/null; mneme cat "$PWD/f"; echo three | mneme write ./new > /dev/null; mneme diff ./f@3 > /dev/null
		mneme mv ./new ../moved; mneme rm ../moved; mneme show ../moved | grep -c '^Change .*deleted'`,
		"two\none\n2\nd/\nf\none\n1\n")
	says(`unset MNEME_URL; ln -s "$PWD/d" "$HOME/link"; mneme cat "$HOME/link/f"; ! mneme ls "$PWD/.." 2> "$HOME/err"; grep -c "mount of whole stores" "$HOME/err"
		! mneme cat ./.mneme/status 2> "$HOME/err"; grep -c reserved "$HOME/err"; ! mneme rm ../docs/x 2> "$HOME/err"; cat "$HOME/err"`,
		"one\n1\n1\nmneme: docs:/x: not found; `mneme ls docs` lists what is there, `mneme log docs` what was\n")
	bound := e.Dir + "/bound"
	m.Sh(t, `mkdir "$TMPDIR/bound"; mount --bind . "$TMPDIR/bound"`)
	t.Cleanup(func() { _ = syscall.Unmount(bound, syscall.MNT_DETACH) })
	says(`unset MNEME_URL; cd "$TMPDIR/bound/d"; mneme cat ./f`, "one\n")
	if err := syscall.Unmount(bound, 0); err != nil {
		t.Error(err)
	}
	flat := e.Mount(t, "notes", "--flat")
	if out := flat.Sh(t, `unset MNEME_URL; cd d; mneme cat ./f; mneme cat "$HOME/link/f"; mneme ls ..; mneme log ../gone --json | wc -l`); out != "one\none\nd/\n2\n" {
		t.Errorf("in a flat mount: %q", out)
	}
	says(`at="$TMPDIR/$(printf 'a \033b')"; mneme mount notes --at "$at" --background; mneme unmount --at "$at" | sed "s:$TMPDIR::"`, "/a \\x1bb is unmounted.\n")
	says(`cd "$TMPDIR"; mneme mount notes --at rel --background; grep -c "^- notes, at $TMPDIR/rel/notes (" rel/notes/.mneme/note; mneme unmount --at rel > /dev/null`, "1\n")
	if e.Remote == nil {
		if out := m.Sh(t, "cat .mneme/status"); !strings.Contains(out, "\nurl: "+e.URL()+"\n") {
			t.Errorf("status:\n%s", out)
		}
	}
}
