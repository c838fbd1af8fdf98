package use

import (
	"regexp"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// TestPackFiles reads packs and the note below .mneme, in a mount that can be written and in
// one whose files the kernel opens by itself, and compares them with what the commands print.
func TestPackFiles(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]string{"written": "notes", "read-only": "notes:ro"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := harness.NewEnv(t)
			e.Store("notes")
			e.MustIn(t, "one\n", "write", "notes:/a.md")
			m := e.Mount(t, store)
			is := func(file string, command ...string) string {
				t.Helper()
				got := strings.TrimSpace(m.Sh(t, "cat .mneme/"+file))
				if want := strings.TrimSpace(e.Must(t, command...)); got != want {
					t.Errorf("%s is\n%s, want\n%s", file, got, want)
				}
				return got
			}
			is("note", "note", store, "--at", m.At)
			first := is("pack/4000", "pack", "notes", "--max-bytes", "4000")
			seq := regexp.MustCompile(`sequence (\d+)`).FindStringSubmatch(first)[1]
			m.Sh(t, `test -z "$(ls -A .mneme/pack)"; test "$(stat -c %s .mneme/pack/4000)" = "$(wc -c < .mneme/pack/4000)"`)

			e.MustIn(t, "two\n", "write", "notes:/b.md")
			is("pack/4000", "pack", "notes", "--max-bytes", "4000", "--at", seq)
			is("pack/800", "pack", "notes", "--max-bytes", "800", "--at", seq)
			is("pack/900@"+seq, "pack", "notes", "--max-bytes", "900", "--at", seq)
			is("pack/900@"+seq+"..", "pack", "notes", "--max-bytes", "900", "--since", seq)
			e.MustIn(t, "three, which is longer\n", "write", "notes:/c.md")
			is("pack/900@"+seq+"..", "pack", "notes", "--max-bytes", "900", "--since", seq)
			is("pack/900@0.."+seq, "pack", "notes", "--max-bytes", "900", "--since", "0", "--at", seq)

			m.Sh(t, `for n in 0 511 1048577 x 04000 4000@99 4000@99..; do ! cat .mneme/pack/$n 2> "$HOME/err"; grep -q 'No such file' "$HOME/err"; done
				! rm .mneme/pack/4000 2> "$HOME/err"; ! touch .mneme/pack/x 2> "$HOME/err"; ! echo x 2> "$HOME/err" > .mneme/pack/4000`)
			sees(t, m, `grep -q 'look up "notes:/.mneme/pack/4000@99..": commit 99 of notes: not found' .mneme/errors`)
			m.Sh(t, `! cat .mneme/pack/511 2> "$HOME/err"`)
			sees(t, m, `grep -q 'pack/511": bad pack: a text of 511 bytes at most; want 512' .mneme/errors; test "$(wc -l < .mneme/errors)" = 1`)
		})
	}
}
