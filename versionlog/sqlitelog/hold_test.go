package sqlitelog

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mneme/cas"
	"mneme/versionlog"
)

// BenchmarkHold reports for how long a rename of 5,000 memories holds up commits to another store, by the
// same log and by another one, as in another process: the median of the longest in each rename, and the
// longest of all.
func BenchmarkHold(b *testing.B) {
	for _, by := range []string{"same", "other"} {
		b.Run("log="+by, func(b *testing.B) {
			l, s := benchLog(b)
			from := l
			if by == "other" {
				from = openTest(b, l.root.Name(), nil)
			}
			benchmarkHold(b, l, s, from, addStore(b, l, "other"))
		})
	}
}

func benchmarkHold(b *testing.B, l *Log, s versionlog.Store, from *Log, other versionlog.Store) {
	commit := func(change func(i int) versionlog.Change) {
		changes := make([]versionlog.Change, 5000)
		for i := range changes {
			changes[i] = change(i)
			changes[i].Expect = versionlog.ExpectAny()
		}
		if _, err := l.Commit(b.Context(), s.ID, &versionlog.Proposal{Key: versionlog.NewKey(), Fresh: true, Changes: changes}); err != nil {
			b.Error(err)
		}
	}
	path := func(dir string, i int) string { return fmt.Sprintf("/notes/%s/%04d/note.md", dir, i) }
	commit(func(i int) versionlog.Change {
		return versionlog.Change{Action: versionlog.Put, Path: path("a", i), Digest: cas.Sum([]byte(fmt.Sprint(i))), Size: 10}
	})
	dirs := []string{"a", "b"}
	var longest []time.Duration
	for b.Loop() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			commit(func(i int) versionlog.Change {
				return versionlog.Change{Action: versionlog.Rename, Path: path(dirs[0], i), To: path(dirs[1], i)}
			})
		}()
		var here time.Duration
		for ended := false; !ended; {
			select {
			case <-done:
				ended = true
			default:
			}
			began := time.Now()
			put(b, from, other.ID, "/f", began.String())
			here = max(here, time.Since(began))
		}
		longest = append(longest, here)
		slices.Reverse(dirs)
	}
	slices.Sort(longest)
	b.ReportMetric(float64(longest[len(longest)/2].Milliseconds()), "ms/hold")
	b.ReportMetric(float64(longest[len(longest)-1].Milliseconds()), "ms/longest")
}
