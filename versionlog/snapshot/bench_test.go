package snapshot

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mneme/cas"
	"mneme/versionlog"
)

// manyHeads are heads as a large store has them.
func manyHeads(n int) []versionlog.Version {
	heads := make([]versionlog.Version, n)
	for i := range heads {
		id := cas.Sum([]byte(fmt.Sprint(i))).String()
		heads[i] = versionlog.Version{
			ID: "memver_" + id[:26], MemoryID: "mem_" + id[26:52], Parent: "memver_" + id[38:], Seq: uint64(i + 1), Op: versionlog.OpModified,
			Path: fmt.Sprintf("/topic-%03d/notes-%05d.md", i/500, i), Digest: cas.Sum([]byte(id)), Size: int64(i % 9000),
			Actor: versionlog.Actor{Kind: versionlog.ActorSession, ID: fmt.Sprint("sesn_", id[:12])}, Session: "sesn_" + id[:12],
			Time: time.Date(2026, 3, 1, 12, 0, i, 123_456_000, time.UTC), Message: "what the session has learnt",
		}
	}
	return heads
}

const benchHeads = 100_000

func benchSnapshot(b *testing.B) (*objects, []versionlog.Version) {
	heads, o := manyHeads(benchHeads), newObjects()
	at := Point{StoreID: "memstore_1", Tip: versionlog.Tip{Seq: benchHeads, Digest: cas.Sum(nil)}}
	if err := Write(b.Context(), o, at, yielding(heads)); err != nil {
		b.Fatal(err)
	}
	return o, heads
}

func BenchmarkWrite(b *testing.B) {
	heads := manyHeads(benchHeads)
	at := Point{StoreID: "memstore_1", Tip: versionlog.Tip{Seq: benchHeads, Digest: cas.Sum(nil)}}
	bytes, pages := 0, 0
	for b.Loop() {
		o := newObjects()
		if err := Write(b.Context(), o, at, yielding(heads)); err != nil {
			b.Fatal(err)
		}
		bytes, pages = 0, len(o.data)-1
		for _, data := range o.data {
			bytes += len(data)
		}
	}
	b.ReportMetric(float64(bytes), "bytes")
	b.ReportMetric(float64(pages), "pages")
}

func BenchmarkOpen(b *testing.B) {
	o, _ := benchSnapshot(b)
	for b.Loop() {
		o.open(b)
	}
}

func BenchmarkHead(b *testing.B) {
	o, heads := benchSnapshot(b)
	for i := 0; b.Loop(); i++ {
		if _, err := o.open(b).State().Head(b.Context(), heads[i*7919%benchHeads].Path); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHeads(b *testing.B) {
	o, _ := benchSnapshot(b)
	for b.Loop() {
		n := 0
		for range o.open(b).Heads(b.Context()) {
			n++
		}
		if n != benchHeads {
			b.Fatal(n)
		}
	}
}

// later are commits behind the snapshot, each of one path.
func later(n int, heads []versionlog.Version) []*versionlog.Commit {
	commits := make([]*versionlog.Commit, n)
	prev := cas.Sum(nil)
	for i := range commits {
		v := heads[i*7919%len(heads)]
		v.Seq = uint64(len(heads) + i + 1)
		commits[i] = &versionlog.Commit{StoreID: "memstore_1", Seq: v.Seq, Prev: prev, Digest: cas.Sum([]byte(fmt.Sprint(i))), Key: versionlog.NewKey(), Versions: []versionlog.Version{v}}
		prev = commits[i].Digest
	}
	return commits
}

// BenchmarkAt makes a state 1,000 commits behind the snapshot and reads one path.
func BenchmarkAt(b *testing.B) {
	o, heads := benchSnapshot(b)
	commits := later(1000, heads)
	for b.Loop() {
		state, err := o.open(b).At(benchHeads+1000, yielding(commits))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := state.Head(b.Context(), heads[4711].Path); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFold takes the snapshot on by commits all over it.
func BenchmarkFold(b *testing.B) {
	o, heads := benchSnapshot(b)
	manifest := slices.Clone(o.data[manifestName])
	for _, n := range []int{1, 10, 1000} {
		commits := later(n, heads)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				o.data[manifestName] = manifest
				if err := o.open(b).Fold(b.Context(), o, uint64(benchHeads+n), yielding(commits)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
