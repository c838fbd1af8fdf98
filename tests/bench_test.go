package tests

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The corpus of the import benchmark.
const (
	benchDirs    = 200
	benchPerDir  = 50
	benchBytes   = 4096
	benchFiles   = benchDirs * benchPerDir
	benchRounds  = 3
	benchPattern = "dir%03d/file%02d.md"
)

// benchCorpus makes 10,000 files of 4 KB of text in 200 directories, the same
// every time.
func benchCorpus(b *testing.B, dir string) {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	words := strings.Fields("the quick brown fox jumps over a lazy dog while seven wizards study ancient maps of quiet harbours")
	for i := range benchFiles {
		var text strings.Builder
		for text.Len() < benchBytes {
			text.WriteString(words[random.IntN(len(words))])
			text.WriteByte(" \n"[random.IntN(12)/11])
		}
		path := filepath.Join(dir, fmt.Sprintf(benchPattern, i/benchPerDir, i%benchPerDir))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text.String()[:benchBytes]), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkImport copies the corpus with cp -r through a mount and, in turns
// with that, to the file system below: as cp does, and with every file made
// durable, which is what a mount promises. It ends with one more copy under
// strace that counts the fsyncs of the daemon.
func BenchmarkImport(b *testing.B) {
	for range b.N {
		e := newEnv(b)
		corpus := filepath.Join(e.dir, "corpus")
		benchCorpus(b, corpus)
		seconds := map[string][]float64{}
		timed := func(name string, do func()) {
			start := time.Now()
			do()
			seconds[name] = append(seconds[name], time.Since(start).Seconds())
		}
		for round := range benchRounds {
			m := e.mount(b, fmt.Sprintf("round-%d", round))
			timed("mneme", func() { m.copyIn(b, corpus) })
			m.stop(b)
			local := filepath.Join(e.dir, fmt.Sprint("local-", round))
			timed("ext4", func() { e.bench(b, "cp", "-r", corpus, local) })
			durable := filepath.Join(e.dir, fmt.Sprint("durable-", round))
			timed("durable", func() {
				if err := copyDurably(corpus, durable); err != nil {
					b.Fatal(err)
				}
			})
		}
		rate := func(name string) float64 {
			slices.Sort(seconds[name])
			return benchFiles / seconds[name][benchRounds/2]
		}
		b.ReportMetric(rate("mneme"), "mneme-files/s")
		b.ReportMetric(rate("ext4"), "ext4-files/s")
		b.ReportMetric(rate("durable"), "ext4-fsync-files/s")
		b.ReportMetric(rate("ext4")/rate("mneme"), "times-ext4")
		b.ReportMetric(rate("durable")/rate("mneme"), "times-ext4-fsync")
		if n := e.fsyncsPerFile(b, corpus); n > 0 {
			b.ReportMetric(n, "fsyncs/file")
		}
		b.ReportMetric(0, "ns/op")
	}
}

func (m *mount) copyIn(b *testing.B, corpus string) {
	m.env.bench(b, "cp", "-r", corpus, filepath.Join(m.dir, "corpus"))
}

func (e *env) bench(b *testing.B, name string, args ...string) {
	b.Helper()
	if r := e.run(b, longPatience, "", func() {}, name, args...); r.code != 0 {
		b.Fatalf("%s: %v", name, r)
	}
}

// copyDurably copies a tree with an fsync of every file and, since that is what
// makes a name durable, of its directory.
func copyDurably(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := os.Create(target)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		err = errors.Join(err, f.Sync(), f.Close())
		if err != nil {
			return err
		}
		dir, err := os.Open(filepath.Dir(target))
		if err != nil {
			return err
		}
		return errors.Join(dir.Sync(), dir.Close())
	})
}

// fsyncsPerFile imports the corpus once more under strace, 0 when there is none.
func (e *env) fsyncsPerFile(b *testing.B, corpus string) float64 {
	b.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		b.Log("no strace, so the fsyncs are not counted")
		return 0
	}
	m := e.mount(b, "counted")
	n := m.fsyncs(b, func() { m.copyIn(b, corpus) })
	m.stop(b)
	return float64(n) / benchFiles
}
