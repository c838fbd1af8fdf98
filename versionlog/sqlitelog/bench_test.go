package sqlitelog

import (
	"fmt"
	"testing"

	"mneme/cas"
	"mneme/versionlog"
)

func BenchmarkCommit(b *testing.B) {
	for name, size := range map[string]int{"none": -1, "4KB": 4 << 10, "64KB": 64 << 10} {
		b.Run("content="+name, func(b *testing.B) { benchmarkCommit(b, size) })
	}
}

// benchmarkCommit writes a new memory or a new version of one, with contents of
// size bytes unless that is negative.
func benchmarkCommit(b *testing.B, size int) {
	l, err := Open(b.Context(), b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	s := versionlog.Store{ID: versionlog.NewStoreID(), Slug: "s"}
	if err := l.CreateStore(b.Context(), s); err != nil {
		b.Fatal(err)
	}
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
	l, err := Open(b.Context(), b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	s := versionlog.Store{ID: versionlog.NewStoreID(), Slug: "s"}
	if err := l.CreateStore(b.Context(), s); err != nil {
		b.Fatal(err)
	}
	_, err = l.Commit(b.Context(), s.ID, &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{{
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
