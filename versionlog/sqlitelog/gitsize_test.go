package sqlitelog

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mneme/cas"
	"mneme/versionlog"
)

// BenchmarkHistoryOnDisk reports what 1,000 small edits of 200 notes take on disk, as
// mneme has them and as git gc leaves them.
func BenchmarkHistoryOnDisk(b *testing.B) {
	if _, err := exec.LookPath("git"); err != nil {
		b.Skip("needs git")
	}
	for b.Loop() {
		historyOnDisk(b)
	}
}

func historyOnDisk(b *testing.B) {
	withLongFrames(b)
	dir, work := b.TempDir(), b.TempDir()
	git := func(args ...string) {
		b.Helper()
		cmd := exec.Command("git", append([]string{"-C", work, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	git("init", "-q")
	l := openTest(b, dir, nil)
	s := addStore(b, l, "s")
	r := rand.New(rand.NewPCG(7, 7))
	notes := make([][]byte, 200)
	write := func(i int) versionlog.Change {
		if err := os.WriteFile(filepath.Join(work, fmt.Sprintf("note%03d.md", i)), notes[i], 0o600); err != nil {
			b.Fatal(err)
		}
		return versionlog.Change{Action: versionlog.Put, Path: fmt.Sprintf("/note%03d.md", i), Digest: cas.Sum(notes[i]), Size: int64(len(notes[i])),
			Content: notes[i], Expect: versionlog.ExpectAny()}
	}
	commit := func(changes ...versionlog.Change) {
		if _, err := l.Commit(b.Context(), s.ID, &versionlog.Proposal{Key: versionlog.NewKey(), Changes: changes}); err != nil {
			b.Fatal(err)
		}
		git("commit", "-qam", "edit")
	}
	var first []versionlog.Change
	var heads int
	for i := range notes {
		notes[i] = words(r, 1000+r.IntN(6000))
		first = append(first, write(i))
	}
	git("add", ".")
	commit(first...)
	for range 1000 {
		i := r.IntN(len(notes))
		notes[i] = edited(r, notes[i])
		commit(write(i))
	}
	for _, note := range notes {
		heads += len(note)
	}
	git("gc", "-q", "--aggressive", "--prune=now")
	packAll(b, l)
	checkPacked(b, l, s.ID)
	b.ReportMetric(float64(heads), "heads-B")
	b.ReportMetric(float64(contentBytes(b, l)), "contents-B")
	b.ReportMetric(float64(dirSize(b, dir)), "all-B")
	b.ReportMetric(float64(dirSize(b, filepath.Join(work, ".git", "objects"))), "git-B")
}
