package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"mneme/memory"
	"mneme/tests/harness"
	"mneme/versionlog"
)

// BenchmarkPast looks at points in the past of a store of 10,000 memories and 100,000
// versions: the first `ls` of one, one that the kernel has, and a warm `grep -r` beside ext4.
func BenchmarkPast(b *testing.B) {
	for name, remote := range map[string]bool{"embedded": false, "aws": true} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				e := harness.NewEnv(b)
				if remote {
					e.OwnServers()
				}
				benchmarkPast(b, e)
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

const (
	pastMemories = 10_000
	pastVersions = 100_000
	pastAtOnce   = 20 // versions of a commit
)

func benchmarkPast(b *testing.B, e *harness.Env) {
	e.Store("notes")
	st := e.OtherSession(b, "notes")
	for n := 0; n < pastVersions; {
		var changes []memory.Change
		for range pastAtOnce {
			changes = append(changes, memory.Change{
				Action: versionlog.Put, Path: fmt.Sprintf("/d%d/%d.md", n%100, n%pastMemories), Expect: versionlog.ExpectAny(),
				Content: fmt.Appendf(nil, "text %d\n", n/1000),
			})
			n++
		}
		if _, err := st.Batch(b.Context(), changes, nil); err != nil {
			b.Fatal(err)
		}
	}
	tip, err := st.Tip(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	m := e.Mount(b, "notes:ro")
	ms := func(args ...string) float64 {
		b.Helper()
		c := exec.Command(args[0], args[1:]...)
		c.Dir = m.Dir
		began := time.Now()
		if out, err := c.CombinedOutput(); err != nil {
			b.Fatalf("%v: %v %s", args, err, out)
		}
		return float64(time.Since(began).Microseconds()) / 1000
	}
	for _, seq := range []uint64{tip.Seq * 9 / 10, tip.Seq / 2, tip.Seq} {
		at := ".mneme/at/" + strconv.FormatUint(seq, 10)
		fmt.Printf("%s at %d of %d: first ls %.0f ms, then %.1f ms, ls of a directory %.0f ms\n", b.Name(), seq, tip.Seq, ms("ls", at), ms("ls", at), ms("ls", at+"/d7"))
	}
	at := ".mneme/at/" + strconv.FormatUint(tip.Seq/2, 10)
	local := filepath.Join(e.Dir, "copy")
	fmt.Printf("%s: cp -r %.0f ms\n", b.Name(), ms("cp", "-r", at, local))
	defer os.RemoveAll(local)
	var there, here series
	for range 9 {
		there = append(there, ms("grep", "-rl", "text 4", at)/1000)
		here = append(here, ms("grep", "-rl", "text 4", local)/1000)
	}
	fmt.Printf("%s: warm grep -r %.1f ms, on ext4 %.1f ms\n", b.Name(), there.median()*1000, here.median()*1000)
}
