package hostile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// flood is what a process of the agent's does in the mount "flooded", until it is
// killed: a Python program in that directory of the store, which says "ready" when it
// has prepared itself.
type flood struct {
	name, program string
	delay         time.Duration // that others' saves may have all the same; 0 is mostDelay
}

// ready begins a program.
const ready = `
import os, sys
os.chdir(sys.argv[1])
def ready(): print("ready", file=sys.stderr, flush=True)
`

// withFiles lets a program have as many descriptors as it may.
const withFiles = `
import resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
`

// closing makes threads empty a file and close it, for which the daemon looks through
// what this process, and those that it descends from, have open.
const closing = `
import threading
def closes(i):
    while True:
        os.close(os.open("closed%d" % i, os.O_CREAT | os.O_WRONLY | os.O_TRUNC))
def close_all():
    for i in range(16):
        threading.Thread(target=closes, args=[i]).start()
    ready()
`

var floods = []flood{
	{name: "scratch files up to the budget", program: withFiles + `
ready()
while True:
    files = []
    try:
        for i in range(30000):
            files.append(os.open("scratch%d~" % i, os.O_CREAT | os.O_RDWR))
            os.pwrite(files[-1], b"x" * 65536, i << 20)
    except OSError:
        pass
    for i, file in enumerate(files):
        os.close(file)
        os.unlink("scratch%d~" % i)
`},
	{name: "closing among 15,000 descriptors, in 4 generations", program: withFiles + closing + `
for i in range(15000):
    os.open("/dev/null", os.O_RDWR)
for generation in range(3):
    if os.fork() != 0:
        os.wait()
close_all()
`},
	{name: "closing in 8 processes", program: closing + `
for sibling in range(7):
    if os.fork() == 0:
        break
close_all()
`},
	{name: "closing in 8 processes with 15,000 descriptors", program: withFiles + closing + `
for i in range(15000):
    os.open("/dev/null", os.O_RDWR)
for sibling in range(7):
    if os.fork() == 0:
        break
close_all()
`},
	{name: "closing among 100 inotify descriptors with 1,000 watches", program: withFiles + closing + `
import ctypes, tempfile
libc = ctypes.CDLL(None)
with tempfile.TemporaryDirectory(dir="/dev/shm") as dir:
    names = [("%s/%d" % (dir, i)).encode() for i in range(1000)]
    for name in names:
        open(name, "w").close()
    for i in range(100):
        notify = libc.inotify_init1(0)
        for name in names:
            libc.inotify_add_watch(notify, name, 0xfff)
close_all()
`},
	{name: "closing beside a file with 10,000 locks", program: withFiles + closing + `
import fcntl, tempfile
file = tempfile.TemporaryFile(dir="/dev/shm")
for i in range(10000):
    fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * i)
for i in range(100):
    os.dup(file.fileno())
close_all()
`},
	{name: "directories up to the budget", program: `
ready()
while True:
    made = 0
    try:
        while True:
            os.mkdir("d%d" % made)
            made += 1
    except OSError:
        pass
    for i in range(made):
        os.rmdir("d%d" % i)
`},
	{name: "renaming a directory of 2,000 files", program: `
os.makedirs("from0")
for i in range(2000):
    with open("from0/%d" % i, "w") as file:
        file.write("text %d\n" % i)
ready()
i = 0
while True:
    os.rename("from%d" % i, "from%d" % (i + 1))
    i += 1
`, delay: 300 * time.Millisecond}, // one commit, and the next one of its mount waits for it
	{name: "rewriting a file of 100 KB", program: `
ready()
i = 0
while True:
    with open("rewritten", "w") as file:
        file.write(("text %10d\n" % i) * 6250)
    i += 1
`},
}

// TestFairness: while one process of a session makes its mount work as hard as it can,
// 99 of 100 saves, of another process in the same mount and of another session in a
// mount of its own, take no longer than five times what they take otherwise, or than 50 ms. It is
// measured side by side, so it runs only as torture, or with MNEME_RUNS.
func TestFairness(t *testing.T) {
	if !torture() && os.Getenv("MNEME_RUNS") == "" {
		t.Skip("measures for minutes; MNEME_TORTURE=1 runs it")
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-56s %-8s %10s %10s %10s %10s %7s", "flood", "saves in", "quiet p50", "quiet p99", "p50", "p99", "ratio")
	for _, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			a := newArena(t)
			quiet := a.measure()
			goesOn := a.begin(f)
			flooded := a.measure()
			if !goesOn() {
				t.Error("the flood has ended")
			}
			for _, mount := range savedIn {
				q, l := quiet[mount], flooded[mount]
				ratio := float64(l.percentile(99)) / float64(q.percentile(99))
				fmt.Fprintf(&table, "\n%-56s %-8s %10v %10v %10v %10v %7.1f", f.name, mount, q.percentile(50), q.percentile(99), l.percentile(50), l.percentile(99), ratio)
				if most := max(mostRatio*q.percentile(99), cmp.Or(f.delay, mostDelay)); l.percentile(99) > most {
					t.Errorf("99 of 100 saves in the %s mount take up to %v, %.1f times the %v without the flood; want at most %v", mount, l.percentile(99), ratio, q.percentile(99), most)
				}
			}
		})
	}
	t.Log("\n" + table.String())
}

const (
	mostRatio  = 5
	mostDelay  = 50 * time.Millisecond
	saves      = 1000
	savesPause = 2 * time.Millisecond
)

// savedIn are the mounts in which is saved: the one with the flood, and another one.
var savedIn = []string{"flooded", "other"}

// arena has two mounts of a store, one of which is flooded.
type arena struct {
	*place
	binary string
}

func newArena(t *testing.T) *arena {
	a := &arena{place: newPlace(t, "python3")}
	a.binary = filepath.Join(a.dir, "saves")
	a.sh(0, fmt.Sprintf("cp /proc/%d/exe %s", os.Getpid(), a.binary))
	a.must("store", "create", "notes")
	for _, mount := range savedIn {
		a.mount(mount, "notes", "--owner", "3001:3001", "--max-memory=64MiB", "--quota-bytes=0", "--quota-versions=0")
	}
	return a
}

// measure saves a file in each mount, both at once, and returns how long that took.
func (a *arena) measure() map[string]latencies {
	a.Helper()
	type result struct {
		mount string
		took  latencies
		err   error
	}
	results := make(chan result)
	for _, mount := range savedIn {
		order, err := json.Marshal(saveOrder{a.path(mount + "/notes/saved-in-" + mount), saves, savesPause})
		if err != nil {
			a.Fatal(err)
		}
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
			defer cancel()
			cmd := a.command(ctx, agent, a.binary)
			cmd.Env = append(cmd.Env, savesOrder+"="+string(order))
			out, err := cmd.Output()
			r := result{mount: mount, err: err}
			if err == nil {
				r.err = json.Unmarshal(out, &r.took)
			}
			results <- r
		}()
	}
	took := map[string]latencies{}
	for range savedIn {
		r := <-results
		if r.err != nil {
			a.Errorf("saving in the %s mount: %v", r.mount, r.err)
		}
		took[r.mount] = r.took
	}
	if a.Failed() {
		a.FailNow()
	}
	return took
}

// begin starts a flood, which goes on until the test ends, as what it returns says.
func (a *arena) begin(f flood) (goesOn func() bool) {
	a.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := a.command(ctx, agent, "/usr/bin/env", "python3", "-c", ready+f.program, a.path("flooded/notes"))
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		a.Fatal(err)
	}
	first := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(said, first); err != nil || string(first) != "ready\n" {
		rest, _ := io.ReadAll(said)
		a.Fatalf("the flood: %v\n%s%s", err, first, rest)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, said)
		_ = cmd.Wait()
	}()
	a.Cleanup(func() {
		cancel()
		<-ended
	})
	return func() bool {
		select {
		case <-ended:
			return false
		default:
			return true
		}
	}
}
