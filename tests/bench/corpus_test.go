package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// The corpus of the benchmarks.
const (
	benchPerDir  = 50
	benchPattern = "dir%03d/file%02d.md"
	benchFile    = "dir010/file07.md" // one of them
)

// corpus makes so many files of text, of sizes log-normal around 4 KB, the same
// every time, and lists their paths below dir.
func corpus(b testing.TB, dir string, files int) []string {
	return corpusOf(b, dir, files, func(random *rand.Rand) int {
		return min(100_000, int(4096*math.Exp(random.NormFloat64()*0.8)))
	})
}

// corpusOf is corpus with sizes of the caller's choice.
func corpusOf(b testing.TB, dir string, files int, size func(*rand.Rand) int) []string {
	b.Helper()
	random := rand.New(rand.NewPCG(2, 2))
	words := strings.Fields("the quick brown fox jumps over a lazy dog while seven wizards study ancient maps of quiet harbours")
	var paths []string
	for i := range files {
		size := size(random)
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
func fill(b testing.TB, e *harness.Env, slug, dir string, paths []string) {
	fillWith(b, e, slug, paths, func(path string) string {
		data, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			b.Fatal(err)
		}
		return string(data)
	})
}

// fillWith is fill with contents of the caller's choice.
func fillWith(b testing.TB, e *harness.Env, slug string, paths []string, content func(path string) string) {
	b.Helper()
	type change struct {
		Action  string `json:"action"`
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	e.Store(slug)
	atOnce := 20 * benchPerDir
	if e.Remote != nil {
		atOnce = benchPerDir // a commit there takes 96 at most
	}
	for part := range slices.Chunk(paths, atOnce) {
		var batch struct {
			Changes []change `json:"changes"`
		}
		for _, path := range part {
			batch.Changes = append(batch.Changes, change{"put", "/" + path, content(path)})
		}
		text, err := json.Marshal(batch)
		if err != nil {
			b.Fatal(err)
		}
		e.MustIn(b, string(text), "apply", slug)
	}
}

// sample writes a shuffled list of some of the paths to a file and returns its
// name.
func sample(b testing.TB, e *harness.Env, paths []string, n int) string {
	b.Helper()
	paths = slices.Clone(paths)
	rand.New(rand.NewPCG(3, 3)).Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	name := filepath.Join(e.Dir, fmt.Sprint("sample-", n))
	if err := os.WriteFile(name, []byte(strings.Join(paths[:n], "\n")+"\n"), 0o644); err != nil {
		b.Fatal(err)
	}
	return name
}
