package tests

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	quickRounds = 5
	quickSample = 1000 // files of the workloads that do not read all
)

// quickCorpus makes 10,000 files of text, log-normal around 4 KB, in 200
// directories, the same every time, and lists their paths below dir.
func quickCorpus(b *testing.B, dir string) []string {
	b.Helper()
	random := rand.New(rand.NewPCG(2, 2))
	words := strings.Fields("the quick brown fox jumps over a lazy dog while seven wizards study ancient maps of quiet harbours")
	var paths []string
	for i := range benchFiles {
		size := min(100_000, int(4096*math.Exp(random.NormFloat64()*0.8)))
		var text strings.Builder
		for text.Len() < size {
			text.WriteString(words[random.IntN(len(words))])
			text.WriteByte(" \n"[random.IntN(12)/11])
		}
		path := fmt.Sprintf(benchPattern, i/benchPerDir, i%benchPerDir)
		paths = append(paths, path)
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text.String()[:size]), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	return paths
}

// fill puts the files of a directory into a store, many with one command.
func (e *env) fill(b *testing.B, slug, dir string, paths []string) {
	b.Helper()
	type change struct {
		Action  string `json:"action"`
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	e.store(slug)
	for part := range slices.Chunk(paths, 10*benchPerDir) {
		var batch struct {
			Changes []change `json:"changes"`
		}
		for _, path := range part {
			data, err := os.ReadFile(filepath.Join(dir, path))
			if err != nil {
				b.Fatal(err)
			}
			batch.Changes = append(batch.Changes, change{"put", "/" + path, string(data)})
		}
		text, err := json.Marshal(batch)
		if err != nil {
			b.Fatal(err)
		}
		e.mustIn(b, string(text), "apply", slug)
	}
}

// quick is one run of the quick benchmark.
type quick struct {
	*testing.B
	env     *env
	paths   string              // file that lists the sample
	targets map[string]string   // directory of each by name
	mounts  map[string]*mount   // those that are mounts
	took    map[string]duration // by workload
	asked   map[string]string   // requests by workload and target
}

// duration is what a workload took on each target, every round.
type duration map[string][]time.Duration

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// shell times a script in a target's directory, the process's start included.
func (q *quick) shell(script string) func(dir string) time.Duration {
	return func(dir string) time.Duration {
		start := time.Now()
		q.env.bench(q.B, "bash", "-c", "cd "+dir+" && "+script)
		return time.Since(start)
	}
}

// child times what benchChild times.
func (q *quick) child(args ...string) func(dir string) time.Duration {
	return func(dir string) time.Duration {
		out := filepath.Join(q.env.dir, "took")
		self, err := os.Executable()
		if err != nil {
			q.Fatal(err)
		}
		all := strings.Join(slices.Insert(slices.Clone(args), 1, dir), " ")
		q.env.bench(q.B, "bash", "-c", childVariable+"=bench "+self+" "+all+" > "+out)
		text, err := os.ReadFile(out)
		if err != nil {
			q.Fatal(err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			q.Fatal(err)
		}
		return time.Duration(n)
	}
}

// warm runs a workload on all targets in turns, after a first time that does
// not count, and counts the requests of one more time.
func (q *quick) warm(name string, run func(dir string) time.Duration) {
	took := duration{}
	for round := range quickRounds + 1 {
		for target, dir := range q.targets {
			if d := run(dir); round > 0 {
				took[target] = append(took[target], d)
			}
		}
	}
	for target, m := range q.mounts {
		caused := m.during(q.B, func() { run(q.targets[target]) })
		var text []string
		for _, kind := range sortedKeys(caused) {
			if n := caused[kind]; n > 20 {
				text = append(text, fmt.Sprintf("%s %d", kind, n))
			}
		}
		q.asked[name+" "+target] = strings.Join(text, ", ")
	}
	q.took[name] = took
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// print writes a table of medians and ratios to ext4.
func (q *quick) print(names []string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%-28s %10s %10s %10s %8s %8s\n", "", "ext4 ms", "ro ms", "rw ms", "ro/ext4", "rw/ext4")
	for _, name := range names {
		t := q.took[name]
		ext4, ro, rw := median(t["ext4"]), median(t["ro"]), median(t["rw"])
		fmt.Fprintf(&b, "%-28s %10s %10s %10s %8s %8s\n", name, ms(ext4), ms(ro), ms(rw), ratio(ro, ext4), ratio(rw, ext4))
		for _, target := range []string{"ro", "rw"} {
			if text := q.asked[name+" "+target]; text != "" {
				fmt.Fprintf(&b, "    %s: %s\n", target, text)
			}
		}
	}
	fmt.Printf("\n%d files, medians of %d interleaved runs\n%s", benchFiles, quickRounds, b.String()) // Log cuts it
}

// ms and ratio write what was measured, and nothing for what was not.
func ms(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", float64(d.Microseconds())/1000)
}

func ratio(d, to time.Duration) string {
	if d == 0 || to == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", float64(d)/float64(to))
}

// BenchmarkQuick compares mounts with ext4.
func BenchmarkQuick(b *testing.B) {
	for range b.N {
		e := newEnv(b)
		corpus := filepath.Join(e.dir, "corpus")
		paths := quickCorpus(b, corpus)
		e.fill(b, "notes", corpus, paths)
		rand.New(rand.NewPCG(3, 3)).Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
		q := &quick{
			B: b, env: e, paths: filepath.Join(e.dir, "sample"), took: map[string]duration{}, asked: map[string]string{},
		}
		if err := os.WriteFile(q.paths, []byte(strings.Join(paths[:quickSample], "\n")+"\n"), 0o644); err != nil {
			b.Fatal(err)
		}
		out := filepath.Join(e.dir, "out")
		q.first(q.shell("grep -r wizards . > "+out), q.shell("cat dir100/file07.md > "+out), corpus)
		q.mounts = map[string]*mount{
			"ro": e.mount(b, "notes:ro", "--metrics-addr=:0"), "rw": e.mount(b, "notes", "--metrics-addr=:0"),
		}
		q.targets = map[string]string{"ext4": corpus, "ro": q.mounts["ro"].dir, "rw": q.mounts["rw"].dir}
		names := []string{firstByte, firstGrep, "grep -r", "rg", "find", "ls -lR", "cat 1,000", "open+read+close 1,000", "64 readers, 1,000"}
		q.warm(names[2], q.shell("grep -r wizards . > "+out))
		q.warm(names[3], q.shell("rg --no-ignore --hidden wizards . > "+out))
		q.warm(names[4], q.shell("find . > "+out))
		q.warm(names[5], q.shell("ls -lR . > "+out))
		q.warm(names[6], q.shell("xargs cat < "+q.paths+" | cat > "+out)) // cat copies within ext4 without reading
		q.warm(names[7], q.child("read", q.paths))
		q.warm(names[8], q.child("parallel", q.paths))
		q.print(append(names, q.saves()...))
		b.ReportMetric(0, "ns/op")
	}
}

const firstByte, firstGrep = "mount to first byte", "first grep -r after mount"

// first times mounting and reading one file, and then reading all, against ext4
// warm.
func (q *quick) first(grep, cat func(dir string) time.Duration, corpus string) {
	all, one := duration{}, duration{}
	grep(corpus)
	for range 3 {
		all["ext4"] = append(all["ext4"], grep(corpus))
		for target, store := range map[string]string{"ro": "notes:ro", "rw": "notes"} {
			start := time.Now()
			m := q.env.mount(q.B, store)
			cat(m.dir)
			one[target] = append(one[target], time.Since(start))
			all[target] = append(all[target], grep(m.dir))
			m.stop(q.B)
		}
	}
	q.took[firstByte], q.took[firstGrep] = one, all
}

// saves times durable writes: a plain one on the mount, a safe one on ext4.
func (q *quick) saves() []string {
	var names []string
	for _, size := range []string{"4096", "65536"} {
		name := "durable save of " + size
		names = append(names, name)
		took := duration{}
		for round := range quickRounds {
			n := fmt.Sprint(round)
			took["ext4"] = append(took["ext4"], q.child("safe", "50", size)(filepath.Join(q.env.dir, "safe"+size+n)))
			took["rw"] = append(took["rw"], q.child("write", "50", size)(filepath.Join(q.targets["rw"], "save"+size+n)))
		}
		q.took[name] = took
	}
	return names
}
