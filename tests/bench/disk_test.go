package bench

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"mneme/tests/harness"
)

// editNotes is a program that writes notes of words below two directories, the second of
// which is a work tree of git, and edits them one at a time, with a commit of git each.
//
//go:embed testdata/editnotes.py
var editNotes string

// onDisk measures what history takes on the disk: of a file that is appended to, and of
// notes that are edited, beside what git makes of the same.
func (r *report) onDisk() {
	appends, notes, edits := r.either(1000, 20), r.either(200, 10), r.either(1000, 20)
	t := r.table("history", "history", "mneme, MB", "git gc, MB", "ratio", "target", "met")

	size := r.takes(func(m *harness.Mount) {
		script := fmt.Sprintf(`head -c 100000 /dev/zero | tr '\0' 'x' > log.md; for i in $(seq %d); do printf x >> log.md; done`, appends)
		shell(r.B, r.env, script)(m.Dir)
	})
	name := fmt.Sprintf("%d appends of a byte to 100 KB", appends)
	t.row(append([]string{name, figure(size), "–", "–"}, r.goal(name, size, size, floor{}, 1.048576, " MB")...)...)

	git := newDir(r.B, r.env, "git")
	size = r.takes(func(m *harness.Mount) {
		bench(r.B, r.env, "python3", "-c", editNotes, m.Dir, git, strconv.Itoa(notes), strconv.Itoa(edits))
	})
	gits := float64(bytesBelow(filepath.Join(git, ".git", "objects"))) / 1e6
	name = fmt.Sprintf("%d edits of %d notes", edits, notes)
	t.row(append([]string{name, figure(size), figure(gits), figure(size / gits)}, r.goal(name, size/gits, size/gits, floor{}, 1.5, "")...)...)
}

// takes returns how many megabytes an embedded library takes after work in its one mount,
// when it is packed: when its size has not changed for 15 s.
func (r *report) takes(work func(*harness.Mount)) float64 {
	e := harness.NewEnv(r.B)
	m := e.Mount(r.B, "notes")
	work(m)
	size := bytesBelow(e.Stores)
	for last := time.Now(); time.Since(last) < 15*time.Second; time.Sleep(100 * time.Millisecond) {
		if now := bytesBelow(e.Stores); now != size {
			size, last = now, time.Now()
		}
	}
	m.Stop(r.B)
	return float64(bytesBelow(e.Stores)) / 1e6
}
