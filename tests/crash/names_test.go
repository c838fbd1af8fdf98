package crash

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"mneme/tests/harness"
)

// changesNames is a program whose processes make and remove the same names in a directory of several
// mounts, half of them in the first one, whose daemon is killed. It prints a line when all have
// begun. Its processes end when the first mount does, or when a line comes. For each of those in the
// first mount it prints what was saved there, by name, and how long a turn took at most.
const changesNames = `
import errno, json, os, select, sys, time
mounts = sys.argv[1:]
gone = {errno.ENOTCONN, errno.ECONNABORTED, errno.ENODEV}
def turn(d, k, i, saved):
    name = "%s/%s%d" % (d, "x%d_" % k if k % 2 else "s", i % 5)
    if i % 3 == 0:
        os.mkdir(name + "d")
        return os.rmdir(name + "d")
    text = "%d of %d\n" % (i, k)
    save = i % 7 == 0
    if save: name = "%s/saved%d_%d" % (d, k, i)
    f = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    try: os.write(f, text.encode())
    finally: os.close(f)
    if save: saved[os.path.basename(name)] = text
    else: os.unlink(name)
def work(d, k):
    saved, slowest, i, ended = {}, 0, 0, False
    while not ended:
        i += 1
        began = time.monotonic()
        try: turn(d, k, i, saved)
        except OSError as err: ended = err.errno in gone
        slowest = max(slowest, time.monotonic() - began)
        if i == 10: os.write(begins, b".")
        ended = ended or bool(select.select([stopped], [], [], 0)[0])
    if i < 10: os.write(begins, b".")
    if d == mounts[0]: os.write(1, (json.dumps({"saved": saved, "slowest": slowest}) + "\n").encode())
begun, begins = os.pipe()
stopped, stop = os.pipe()
for k in range(8):
    if os.fork() == 0:
        os.close(stop)
        work(mounts[0] if k < 4 else mounts[1 + k % (len(mounts) - 1)], k)
        os._exit(0)
for k in range(8): os.read(begun, 1)
print("working", flush=True)
sys.stdin.readline()
os.close(stop)
for k in range(8): os.wait()
`

// kills are the ways in which the process that serves a mount ends while programs change names, some
// time after they have begun.
var kills = map[string]func(t *testing.T, m *harness.Mount, after time.Duration){
	"SIGKILL": func(t *testing.T, m *harness.Mount, after time.Duration) {
		time.Sleep(after)
		_ = syscall.Kill(m.PID, syscall.SIGKILL)
	},
	"panic": func(t *testing.T, m *harness.Mount, after time.Duration) { // ends the process as a panic does
		time.Sleep(after)
		_ = syscall.Kill(m.PID, syscall.SIGQUIT)
	},
	"stopped": func(t *testing.T, m *harness.Mount, after time.Duration) {
		time.Sleep(after)
		_ = syscall.Kill(m.PID, syscall.SIGSTOP)
		time.Sleep(time.Duration(harness.Times(1, 60)) * time.Second)
		_ = syscall.Kill(m.PID, syscall.SIGKILL)
	},
	"unmount": func(t *testing.T, m *harness.Mount, after time.Duration) {
		unmount := exec.Command(harness.Binary, "unmount", "--at", m.At)
		unmount.Env = m.Env.Environ()
		harness.StartTied(t, unmount)
		time.Sleep(after / 3)
		_ = syscall.Kill(m.PID, syscall.SIGKILL)
		_ = unmount.Wait()
	},
	"kept": func(t *testing.T, m *harness.Mount, after time.Duration) {
		time.Sleep(after)
		_ = syscall.Kill(serving(t, m), syscall.SIGKILL)
	},
	"takeover": func(t *testing.T, m *harness.Mount, after time.Duration) {
		_ = syscall.Kill(serving(t, m), syscall.SIGKILL)
		time.Sleep(after)
		_ = syscall.Kill(serving(t, m), syscall.SIGKILL)
	},
	"replace": func(t *testing.T, m *harness.Mount, after time.Duration) {
		old := serving(t, m)
		_ = syscall.Kill(m.PID, syscall.SIGHUP)
		time.Sleep(after)
		_ = syscall.Kill(old, syscall.SIGKILL)
	},
}

// keptKills are those of mounts with a keeper.
var keptKills = []string{"kept", "takeover", "replace"}

// TestKilledAtNames kills the process that serves a mount while programs of several sessions make and
// remove names in one directory: then programs hold the directory until they are answered, and
// notices wait for it. The process ends, programs get an error or go on, and what was acknowledged is
// in the store.
func TestKilledAtNames(t *testing.T) {
	t.Parallel()
	for _, way := range slices.Sorted(maps.Keys(kills)) {
		for _, sessions := range []int{2, 6} {
			t.Run(fmt.Sprintf("%s, %d sessions", way, sessions), func(t *testing.T) {
				t.Parallel()
				killAtNames(t, way, sessions)
			})
		}
	}
}

func killAtNames(t *testing.T, way string, sessions int) {
	e := harness.NewEnv(t)
	e.Store("notes")
	kept := slices.Contains(keptKills, way)
	at := []string{""}
	for range sessions - 1 {
		at = append(at, e.Mount(t, "notes").Dir+"/d")
	}
	random := rand.New(rand.NewPCG(uint64(sessions), uint64(len(way))))
	rounds := harness.Times(1+2/sessions, 22)
	for range rounds {
		var m *harness.Mount
		if kept {
			m = keptMount(t, e)
		} else {
			m = e.Mount(t, "notes")
		}
		m.Sh(t, "mkdir -p d")
		at[0] = m.Dir + "/d"
		in, out, wait := copied(t, m, changesNames, at...)
		line(t, out)
		kills[way](t, m, time.Duration(random.Int64N(int64(300*time.Millisecond))))
		saved := map[string]string{}
		if kept {
			m.Sh(t, "echo on > d/saved_on") // the next process answers
			saved["saved_on"] = "on\n"
		} else if m.Over = true; !m.Wait(harness.MountPatience) {
			t.Errorf("the process that serves the mount has not ended")
		}
		if _, err := in.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			var w struct {
				Saved   map[string]string
				Slowest float64
			}
			if err := json.Unmarshal([]byte(line(t, out)), &w); err != nil {
				t.Fatal(err)
			}
			maps.Copy(saved, w.Saved)
			t.Logf("%d saved, slowest turn %.1f s", len(w.Saved), w.Slowest)
			if harness.Torture() && kept && w.Slowest > 2*float64(harness.SlownessOf(t)) {
				t.Errorf("a turn took %.1f s", w.Slowest)
			}
		}
		if err := wait(); err != nil {
			t.Error(err)
		}
		holds := e.Listing(t, "notes")
		for name, text := range saved {
			if want := fmt.Sprintf("%x", sha256.Sum256([]byte(text))); holds["/d/"+name] != want {
				t.Errorf("%s was saved, %q; the store has %q of it", name, text, holds["/d/"+name])
			}
		}
		e.Must(t, "rm", "--recursive", "notes:/d")
		if kept {
			m.Stop(t)
		} else {
			m.Env.Mneme("unmount", "--at", m.At) // unless the test has
		}
	}
}
