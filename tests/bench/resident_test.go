package bench

import (
	"fmt"
	"testing"
	"time"

	"mneme/tests/harness"
)

// BenchmarkResident measures the memory of a mount, see residentWhen, in stores of several
// sizes of short memories. One of them by itself:
//
//	go test -run '^$' -bench Resident/100000 -benchtime 1x ./tests/bench
func BenchmarkResident(b *testing.B) {
	for _, memories := range []int{2000, 10_000, 100_000} {
		b.Run(fmt.Sprint(memories), func(b *testing.B) {
			for range b.N {
				r := newReport(b)
				e, _ := r.many(memories)
				for _, kind := range []string{"rw", "ro"} {
					took := r.sizes(e, kind, memories)
					for _, when := range residentWhen {
						b.ReportMetric(took[when].median(), kind+"-"+when+"-MB")
						fmt.Printf("resident memory, %d memories, %s, %s: %s MB\n", memories, wordOf[kind], when, took[when].withSpread())
					}
				}
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// residentWhen are the moments at which the memory of a mount is measured: when
// it has loaded everything, after ls has gone through all of it, after grep has read all,
// and its worst.
var residentWhen = []string{"loaded", "listed", "read", "at-most"}

// sizes measures the resident memory of three mounts, in 10^6 bytes.
func (r *report) sizes(e *harness.Env, kind string, memories int) map[string]series {
	took := map[string]series{}
	for range 3 {
		m := e.Mount(r.B, storeOf[kind], "--metrics-addr=:0")
		await(r.B, m, memories)
		add := func(when, field string) { took[when] = append(took[when], megabytes(r.B, m.PID, field)) }
		add("loaded", "VmRSS")
		r.walk(e, m, "ls -lR .")
		add("listed", "VmRSS")
		r.walk(e, m, "grep -r wizards .")
		add("read", "VmRSS")
		add("at-most", "VmHWM")
		m.Stop(r.B)
	}
	return took
}

// walk runs a command that goes through a mount. A mount gives back what a walk took
// when the walk has ended.
func (r *report) walk(e *harness.Env, m *harness.Mount, command string) {
	bench(r.B, e, "bash", "-c", "cd "+m.Dir+" && "+command+" > "+out(e)+" || true")
	time.Sleep(3 * time.Second)
}
