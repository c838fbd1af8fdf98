package bench

import (
	_ "embed"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mneme/tests/harness"
)

//go:embed testdata/reading.md
var readingPage string

// BenchmarkReading measures everything but writes, against ext4 and against what
// else mounts a bucket, and writes docs/BENCHMARKS.md.
func BenchmarkReading(b *testing.B) {
	for range b.N {
		r := newReport(b)
		harness.NeedTools(b, "rclone", "s3fs", "rg", "findmnt")
		dir, paths := r.mainRatios(b)
		r.far(dir, paths)
		r.starts()
		r.readPeers()
		r.write("BENCHMARKS.md", readingPage)
		b.ReportMetric(0, "ns/op")
	}
}

// BenchmarkQuick prints the main ratios.
func BenchmarkQuick(b *testing.B) {
	for range b.N {
		r := newReport(b)
		r.rounds = 5
		harness.NeedTools(b, "rg")
		r.mainRatios(b)
		r.saves()
		fmt.Printf("\nread-only\n%v\n\nwritable\n%v\n\ndurable saves\n%v\n", r.tables["ro"], r.tables["rw"], r.tables["saves"])
		b.ReportMetric(0, "ns/op")
	}
}

// mainRatios measures the first pass over the corpus and the warm ones, and
// returns where the corpus is on ext4, and its files.
func (r *report) mainRatios(b *testing.B) (dir string, paths []string) {
	dir = filepath.Join(r.env.Dir, "corpus")
	paths = corpus(b, dir, r.files)
	fill(b, r.env, "notes", dir, paths)
	list := sample(b, r.env, paths, 1000)
	r.first(dir)
	r.warm(dir, warmWork(b, r.env, list, 1000))
	return dir, paths
}

// readTargets are the targets of ratios to ext4: of the read-only mount and of
// the writable one, by the beginning of a workload's name.
var readTargets = []struct {
	work   string
	ro, rw float64
}{
	{firstGrep, 2, 4.5},
	{"`grep", 1.1, 3.5}, {"`rg", 1.1, 3.3}, {"`find", 1.0, 1.3}, {"`ls", 1.0, 1.0},
	{"`cat", 1.1, 1.6}, {"open", 1.2, 5.3}, {"64", 1.2, 3.0},
}

const firstGrep = "first `grep -r` after a mount"

// ratioHeader heads the tables of ratios.
var ratioHeader = slices.Concat([]string{"work", "ext4, ms"}, comparedHeader, []string{"FUSE requests"})

// ratios adds a row to the table of one kind of mount.
func (r *report) ratios(kind, name string, t map[string]series, requests string) {
	limit := 0.0
	for _, target := range readTargets {
		if strings.HasPrefix(name, target.work) {
			limit = map[string]float64{"ro": target.ro, "rw": target.rw}[kind]
			break
		}
	}
	least := floors{t[bareKind(kind, "memory")], t[bareKind(kind, "database")]}
	compared := r.compared(wordOf[kind]+" "+name, t["ext4"], t[kind], least, limit)
	r.table(kind, ratioHeader...).row(slices.Concat([]string{name}, compared, []string{requests})...)
}

// bareKind names the bare file system with one of bareStores that is measured
// beside one kind of mount.
func bareKind(kind, store string) string { return "bare " + kind + " " + store }

// warm runs each workload on ext4 and on both kinds of mount in turns, after a
// first time that does not count, and counts the requests of one more time.
func (r *report) warm(dir string, all []work) {
	mounts := map[string]*harness.Mount{
		"ro": r.env.Mount(r.B, "notes:ro", "--metrics-addr=:0"), "rw": r.env.Mount(r.B, "notes", "--metrics-addr=:0"),
	}
	dirs := map[string]string{"ext4": dir, "ro": mounts["ro"].Dir, "rw": mounts["rw"].Dir}
	for kind := range mounts {
		bare := mountBare(r.B, r.env, dir, kind, "memory")
		defer bare.stop()
		dirs[bareKind(kind, "memory")] = bare.dir
	}
	took := timings{}
	for _, w := range all {
		for round := range r.rounds + 1 {
			for target, dir := range dirs {
				if d := w.run(dir); round > 0 {
					took.add(w.name, target, d)
				}
			}
		}
		for kind, m := range mounts {
			caused := m.During(r.B, func() { w.run(m.Dir) })
			r.ratios(kind, w.name, took[w.name], requestsText(caused))
		}
	}
	for _, m := range mounts {
		m.Stop(r.B)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// requestsText lists requests, but for the few that every run causes.
func requestsText(caused map[string]int) string {
	var text []string
	for _, kind := range sortedKeys(caused) {
		if n := caused[kind]; n > 20 {
			text = append(text, fmt.Sprintf("%d %s", n, kind))
		}
	}
	if len(text) == 0 {
		return "none"
	}
	return strings.Join(text, ", ")
}

// first times the first grep after a mount, whose bytes the machine has, against
// ext4 warm.
func (r *report) first(dir string) {
	w := grepWork(r.B, r.env)
	took := timings{}
	requests := map[string]string{}
	w.run(dir)
	for round := range r.rounds {
		took.add(firstGrep, "ext4", w.run(dir))
		for kind, store := range map[string]string{"ro": "notes:ro", "rw": "notes"} {
			m := r.env.Mount(r.B, store, "--metrics-addr=:0")
			if round == 0 {
				requests[kind] = requestsText(m.During(r.B, func() { took.add(firstGrep, kind, w.run(m.Dir)) }))
			} else {
				took.add(firstGrep, kind, w.run(m.Dir))
			}
			m.Stop(r.B)
			for _, store := range bareStores {
				bare := mountBare(r.B, r.env, dir, kind, store)
				took.add(firstGrep, bareKind(kind, store), w.run(bare.dir))
				bare.stop()
			}
		}
	}
	for _, kind := range []string{"ro", "rw"} {
		r.ratios(kind, firstGrep, took[firstGrep], requests[kind])
	}
}

// await waits until a mount with --metrics-addr has loaded so many memories.
func await(b testing.TB, m *harness.Mount, memories int) {
	b.Helper()
	want := fmt.Sprintf("mneme_store_memories{store=\"notes\"} %d\n", memories)
	for deadline := time.Now().Add(harness.LongPatience); !strings.Contains(m.Metrics(b), want); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("there are not %d memories after %v", memories, harness.LongPatience)
		}
	}
}
