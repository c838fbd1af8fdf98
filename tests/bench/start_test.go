package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mneme/tests/harness"
)

// many fills a store of its own with so many short memories, unless it is there,
// and returns its environment and the name of one memory.
func (r *report) many(memories int) (*harness.Env, string) {
	e := harness.NewEnv(r.B)
	var paths []string
	for i := range memories {
		paths = append(paths, fmt.Sprintf(benchPattern, i/benchPerDir, i%benchPerDir))
	}
	fillWith(r.B, e, "notes", paths, func(path string) string { return "what is to be remembered of " + path + "\n" })
	return e, paths[len(paths)*2/3]
}

// starts measures how long mounting and reading one file takes, and how much
// memory a mount takes in the end, in stores of several sizes.
func (r *report) starts() {
	for _, size := range []struct {
		memories   int
		firstByte  float64 // target in ms; 0 is none
		megabytes  float64 // likewise
		fullCorpus bool    // files of the usual sizes
	}{
		{r.either(2000, 500), 50, 0, false},
		{r.either(10_000, 1000), 0, 60, true},
		{r.either(100_000, 3000), 500, 200, false},
	} {
		e, one := r.env, benchFile
		if !size.fullCorpus {
			e, one = r.many(size.memories)
		}
		for _, kind := range []string{"ro", "rw"} {
			r.firstByte(e, kind, one, size.memories, size.firstByte)
			r.resident(e, kind, size.memories, size.megabytes)
		}
	}
}

var storeOf = map[string]string{"ro": "notes:ro", "rw": "notes"}

var wordOf = map[string]string{"ro": "read-only", "rw": "writable"}

// firstByte times from the start of `mneme mount` until a file is read.
func (r *report) firstByte(e *harness.Env, kind, file string, memories int, limit float64) {
	var took series
	at := filepath.Join(newDir(r.B, e, "start-"), "mnt")
	for range r.rounds {
		d := timed(r.B, e, "start", e.Daemon, "mount", "--json", storeOf[kind], "--at="+at)(filepath.Join(at, "notes", file))
		took = append(took, float64(d.Microseconds())/1000)
	}
	name := fmt.Sprintf("mount to first byte, %d memories, %s", memories, wordOf[kind])
	r.start(name, took, limit, " ms")
}

// start adds a row to the table of the results that have a target of their own.
func (r *report) start(name string, got series, limit float64, unit string) {
	verdict := []string{"", ""}
	if limit > 0 {
		verdict = r.goal(name, got.median(), got.least(), floor{}, limit, unit)
	}
	r.table("start", "what", "median (least–most)", "target", "met").row(name, got.withSpread()+unit, verdict[0], verdict[1])
}

// resident adds the memory of a mount to the table.
func (r *report) resident(e *harness.Env, kind string, memories int, limit float64) {
	took := r.sizes(e, kind, memories)
	name := fmt.Sprintf("resident memory, %d memories, %s, ", memories, wordOf[kind])
	r.start(name+"loaded", took["loaded"], limit, " MB")
	r.start(name+"after listing all", took["listed"], limit, " MB")
	r.start(name+"after reading all", took["read"], limit, " MB")
	r.start(name+"at most", took["at-most"], 0, " MB")
}

// megabytes reads a size from the status of a process, in 10^6 bytes.
func megabytes(b testing.TB, pid int, field string) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == field+":" {
			kib, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib * 1024 / 1e6
		}
	}
	b.Fatalf("no %s in\n%s", field, status)
	return 0
}

// cacheBound reads more than the disk cache of a remote store may hold, twice,
// and adds how much of the disk it took at most.
func (r *report) cacheBound(e *harness.Env) {
	const limit = 2 << 20
	at := filepath.Join(e.Dir, "bounded")
	m := e.Mount(r.B, "notes:ro", "--cache-dir="+at, fmt.Sprintf("--cache-size=%d", limit))
	done := make(chan struct{})
	var most int64
	sampled := make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			most = max(most, bytesBelow(at))
			select {
			case <-done:
				most = max(most, bytesBelow(at))
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	for range 2 {
		grepWork(r.B, r.env).run(m.Dir)
	}
	close(done)
	<-sampled
	m.Stop(r.B)
	r.start(fmt.Sprintf("disk cache with `--cache-size %d`, at most", limit), series{float64(most) / (1 << 20)}, limit/(1<<20), " MiB")
}

func bytesBelow(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil { // it may be gone
			sum += info.Size()
		}
		return nil
	})
	return sum
}
