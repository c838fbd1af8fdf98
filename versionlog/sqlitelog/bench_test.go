package sqlitelog

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"mneme/cas"
	"mneme/versionlog"
)

// benchLog returns a log with one store.
func benchLog(b *testing.B) (*Log, versionlog.Store) {
	b.Helper()
	atPace(b, ownPace)
	l := openTest(b, b.TempDir(), nil)
	return l, addStore(b, l, "s")
}

func BenchmarkCommit(b *testing.B) {
	for name, size := range map[string]int{"none": -1, "4KB": 4 << 10, "64KB": 64 << 10} {
		b.Run("content="+name, func(b *testing.B) { benchmarkCommit(b, size) })
	}
}

// benchmarkCommit writes a new memory or a new version of one, with contents of
// size bytes unless that is negative.
func benchmarkCommit(b *testing.B, size int) {
	l, s := benchLog(b)
	i := 0
	for b.Loop() {
		i++
		change := versionlog.Change{
			Action: versionlog.Put, Path: fmt.Sprintf("/notes/%d.md", i%1000), Digest: cas.Sum([]byte(fmt.Sprint(i))), Size: 10,
			Expect: versionlog.ExpectAny(),
		}
		if size >= 0 {
			change.Content = make([]byte, size)
			copy(change.Content, fmt.Sprint(i))
			change.Digest, change.Size = cas.Sum(change.Content), int64(size)
		}
		_, err := l.Commit(b.Context(), s.ID, &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{change}})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHead(b *testing.B) {
	l, s := benchLog(b)
	_, err := l.Commit(b.Context(), s.ID, &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{{
		Action: versionlog.Put, Path: "/a", Digest: cas.Sum(nil), Expect: versionlog.ExpectAny(),
	}}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := l.Head(b.Context(), s.ID, "/a"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWalk reads 10,000 heads in directories of 50 and of one, and the names
// of these, which is what a mount does first.
func BenchmarkWalk(b *testing.B) {
	defer func(rows, names int) { pageRows, pageNames = rows, names }(pageRows, pageNames)
	pageRows, pageNames = 1000, 100
	for _, each := range []int{50, 1} {
		b.Run(fmt.Sprint("each=", each), func(b *testing.B) { benchmarkWalk(b, each) })
	}
}

func benchmarkWalk(b *testing.B, each int) {
	l, s := benchLog(b)
	for from := 0; from < 10000; from += 50 {
		p := &versionlog.Proposal{Key: versionlog.NewKey()}
		for i := from; i < from+50; i++ {
			p.Changes = append(p.Changes, versionlog.Change{
				Action: versionlog.Put, Path: fmt.Sprintf("/%05d/%05d.md", i/each, i), Digest: cas.Sum(nil), Expect: versionlog.ExpectAny(),
			})
		}
		if _, err := l.Commit(b.Context(), s.ID, p); err != nil {
			b.Fatal(err)
		}
	}
	for name, walk := range map[string]iter.Seq2[versionlog.Version, error]{
		"heads": l.Heads(b.Context(), s.ID, "/", ""), "names": l.Children(b.Context(), s.ID, "/"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range walk {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		l, err := Open(b.Context(), dir, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRenameDirectory moves a directory to and fro, in one commit.
func BenchmarkRenameDirectory(b *testing.B) {
	for _, files := range []int{1000, 10_000} {
		b.Run(fmt.Sprint("files=", files), func(b *testing.B) { benchmarkRenameDirectory(b, files) })
	}
}

func benchmarkRenameDirectory(b *testing.B, files int) {
	l, s := benchLog(b)
	commit := func(change func(i int) versionlog.Change) {
		changes := make([]versionlog.Change, files)
		for i := range changes {
			changes[i] = change(i)
			changes[i].Expect = versionlog.ExpectAny()
		}
		if _, err := l.Commit(b.Context(), s.ID, &versionlog.Proposal{Key: versionlog.NewKey(), Fresh: true, Changes: changes}); err != nil {
			b.Fatal(err)
		}
	}
	path := func(dir string, i int) string { return fmt.Sprintf("/notes/%s/%04d/note.md", dir, i) }
	commit(func(i int) versionlog.Change {
		return versionlog.Change{Action: versionlog.Put, Path: path("a", i), Digest: cas.Sum([]byte(fmt.Sprint(i))), Size: 10}
	})
	from, to := "a", "b"
	for b.Loop() {
		commit(func(i int) versionlog.Change {
			return versionlog.Change{Action: versionlog.Rename, Path: path(from, i), To: path(to, i)}
		})
		from, to = to, from
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*files), "µs/file")
}

// BenchmarkPast lists a directory of 20 memories as it was, in a store of 100,000
// versions of 5,000 paths.
func BenchmarkPast(b *testing.B) {
	l, s := benchLog(b)
	const commits, each, paths = 1000, 100, 5000
	for i := range commits {
		p := &versionlog.Proposal{Key: versionlog.NewKey(), Fresh: true}
		for j := range each {
			n := (i*each + j*31) % paths
			p.Changes = append(p.Changes, versionlog.Change{
				Action: versionlog.Put, Path: fmt.Sprintf("/dir%03d/%02d.md", n%250, n/250), Digest: cas.Sum([]byte(fmt.Sprint(i))), Size: 10,
				Expect: versionlog.ExpectAny(),
			})
		}
		if _, err := l.Commit(b.Context(), s.ID, p); err != nil {
			b.Fatal(err)
		}
	}
	for _, dir := range []string{"/", "/dir007"} {
		b.Run("dir="+dir[1:]+"/now", func(b *testing.B) {
			for b.Loop() {
				for _, err := range l.Children(b.Context(), s.ID, dir) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		for _, seq := range []uint64{10, commits / 2, commits} {
			b.Run(fmt.Sprintf("dir=%s/seq=%d", dir[1:], seq), func(b *testing.B) {
				state, err := l.At(b.Context(), s.ID, seq)
				if err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					for _, err := range state.Children(b.Context(), dir) {
						if err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// BenchmarkContent reads the content of a head, and of versions that take more and more
// frames.
func BenchmarkContent(b *testing.B) {
	for _, size := range []int{4 << 10, 100 << 10} {
		l, s := benchLog(b)
		r := rand.New(rand.NewPCG(1, 1))
		text := words(r, size)
		var all []cas.Digest
		for range treeSize + 1 {
			text = edited(r, text)
			text = append(text, words(r, max(0, size-len(text)))...)[:size]
			all = append(all, cas.Sum(text))
			if _, err := l.Commit(b.Context(), s.ID, withContent("/a", string(text), versionlog.ExpectAny())); err != nil {
				b.Fatal(err)
			}
		}
		for {
			if worked, err := l.packer.step(b.Context(), 1); err != nil {
				b.Fatal(err)
			} else if !worked {
				break
			}
		}
		blobs := l.Blobs(s.ID)
		for _, at := range []struct {
			name  string
			index int
		}{{"head", treeSize}, {"frames=1", 0}, {"frames=4", 3}, {"frames=16", treeSize - 1}} {
			b.Run(fmt.Sprintf("size=%d/%s", size, at.name), func(b *testing.B) {
				for b.Loop() {
					if _, err := blobs.Get(b.Context(), all[at.index]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		closeOnce(b, l)
	}
}
