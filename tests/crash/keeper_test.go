package crash

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mneme/session/conflict"
	"mneme/tests/harness"
)

// worksOn is a program in a container, so to speak: it sees a store of the mount
// bound to another directory. Its threads read, list, save, append and write until a
// line comes. Then it prints what was acknowledged, and what went wrong that must
// not. Its arguments are the store's directory and the one to bind it to.
const worksOn = `
import errno, json, os, random, subprocess, sys, threading, time
source, at = sys.argv[1], sys.argv[2]
subprocess.run(["mount", "--bind", source, at], check=True)
os.chdir(at)
done, faults, slowest = threading.Event(), [], {}
saved, appended, written, broken = {}, [], [], []
steady, removed = os.open("steady", os.O_RDONLY), os.open("removed", os.O_RDONLY)
os.unlink("removed")
may = {errno.EIO, errno.ESTALE, errno.EBUSY, errno.ENOENT, errno.EBADF}  # to who changes something
def timed(what, do):
    began = time.monotonic()
    try: return do()
    finally: slowest[what] = max(slowest.get(what, 0), time.monotonic() - began)
def read_open():
    for fd, text in (steady, b"steady\n"), (removed, b"removed\n"):
        got = os.pread(fd, 100, 0)
        if got != text: faults.append("an open file holds %r, not %r" % (got, text))
def look():
    for name in os.listdir("."):
        if name.startswith("."): continue
        try:
            os.stat(name)
            with open(name, "rb") as f: f.read()
        except FileNotFoundError: pass  # it was renamed
    with open("steady", "rb") as f:
        if f.read() != b"steady\n": faults.append("steady was changed")
def save():
    n = len(saved) + len(broken) + random.randrange(1 << 30)
    name, token = "f%d" % random.randrange(3), "save %d" % n
    with open(name + ".tmp", "w") as f: f.write(token * 20)
    os.rename(name + ".tmp", name)
    saved[token] = name
def append():
    token = "line %d\n" % random.randrange(1 << 40)
    name = "log%d" % (len(appended) // 1000)
    fd = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try: os.write(fd, token.encode())
    finally: os.close(fd)
    appended.append(token)
def write():
    "writes to a file that stays open; what it has not closed may be lost to it, but is kept"
    text = ""
    fd = os.open("open", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for i in range(20):
            more = "part %d of %d\n" % (i, random.randrange(1 << 40))
            if os.write(fd, more.encode()) != len(more): raise OSError(errno.EIO, "short")
            text += more
            time.sleep(0.01)
    except OSError:
        broken.append(text)
        try: os.close(fd)
        except OSError: pass
        raise
    try: os.close(fd)
    except OSError:
        broken.append(text)
        raise
    written.append(text)
def again(what, do, forgives):
    while not done.is_set():
        try: timed(what, do)
        except OSError as err:
            if err.errno not in forgives: faults.append("%s: %s" % (what, err))
        except Exception as err: faults.append("%s: %r" % (what, err))
        time.sleep(0.001)
threads = [threading.Thread(target=again, args=job, daemon=True) for job in [
    ("read open", read_open, ()), ("look", look, ()), ("save", save, may), ("append", append, may), ("write", write, may)]]
print("working", flush=True)
for t in threads: t.start()
sys.stdin.readline()
end = time.monotonic() + 20
while not (saved and appended and written) and time.monotonic() < end: time.sleep(0.01) # on a busy machine
done.set()
for t in threads: t.join(10)
if any(t.is_alive() for t in threads): faults.insert(0, "a call does not return")
print(json.dumps({"faults": faults[:10], "slowest": slowest, "saved": saved, "appended": appended, "written": written, "broken": broken}), flush=True)
os._exit(0)
`

// worked is what worksOn prints.
type worked struct {
	Faults                    []string
	Slowest                   map[string]float64 // seconds
	Saved                     map[string]string
	Appended, Written, Broken []string
}

// serving returns the process that serves a mount with a keeper.
func serving(t testing.TB, m *harness.Mount) int {
	t.Helper()
	for deadline := time.Now().Add(harness.MountPatience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", m.PID))
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for pid := range strings.FieldsSeq(string(text)) {
				stat, _ := os.ReadFile("/proc/" + pid + "/stat")
				if _, after, _ := strings.Cut(string(stat), ") "); after != "" && after[0] != 'Z' && after[0] != 'X' {
					n, _ := strconv.Atoi(pid)
					return n
				}
			}
		}
	}
	t.Fatalf("the keeper has nobody who serves\n%s", m.Stderr)
	return 0
}

// keptMount is a mount with a keeper.
func keptMount(t testing.TB, e *harness.Env, args ...string) *harness.Mount {
	t.Helper()
	m := e.Mount(t, append([]string{"notes", "--keep", "--log-level=info"}, args...)...)
	t.Cleanup(func() {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", m.PID)); err == nil && t.Failed() {
			t.Logf("mount %s said\n%s", m.At, m.Stderr)
		}
	})
	return m
}

// waitSaid waits until a daemon has logged something.
func waitSaid(t testing.TB, m *harness.Mount, what string) {
	t.Helper()
	for deadline := time.Now().Add(harness.MountPatience); !strings.Contains(m.Stderr.String(), what); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the daemon does not say %q:\n%s", what, m.Stderr)
		}
	}
}

// TestKeeperUnderLoad kills who serves a mount, and has it replaced, again and
// again, while programs in a mount namespace with a copy of the mount, bound to
// another place, use it; the one that is replaced is flat. Readers notice nothing, and nothing takes long; writers may
// be refused, but what was acknowledged is in the history, and the rest is kept.
func TestKeeperUnderLoad(t *testing.T) {
	t.Parallel()
	harness.EachDaemon(t, keeperUnderLoad)
}

func keeperUnderLoad(t *testing.T) {
	turns := 4
	if harness.Torture() {
		turns = 100
	}
	for way, turn := range map[string]func(t *testing.T, m *harness.Mount){
		"kill": func(t *testing.T, m *harness.Mount) { _ = syscall.Kill(serving(t, m), syscall.SIGKILL) },
		"replace": func(t *testing.T, m *harness.Mount) { // by the program that the keeper has, too
			r := m.Env.Run(t, harness.ScriptPatience, "", func() {}, m.Env.Daemon, "mount", "--replace", "--at", m.At)
			if r.Code != 0 {
				t.Fatalf("replace: exit code %d\n%s", r.Code, r.Stderr)
			}
		},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			e := harness.NewEnv(t)
			var flags []string
			if way == "replace" {
				flags = append(flags, "--flat")
			}
			m := keptMount(t, e, flags...)
			m.Sh(t, "echo steady > steady; echo removed > removed")
			bound := filepath.Join(e.Dir, "bound")
			if err := os.Mkdir(bound, 0o755); err != nil {
				t.Fatal(err)
			}
			in, out, wait := copied(t, m, worksOn, m.Dir, bound)
			line(t, out)
			for range turns {
				time.Sleep(apart/2 + rand.N(apart/2))
				turn(t, m)
			}
			time.Sleep(500 * time.Millisecond)
			if _, err := in.Write([]byte("\n")); err != nil {
				t.Fatal(err)
			}
			var w worked
			if err := json.Unmarshal([]byte(line(t, out)), &w); err != nil {
				t.Fatal(err)
			}
			if err := wait(); err != nil {
				t.Error(err)
			}
			checkWorked(t, m, &w)
		})
	}
}

// apart is how long is at most between two turns. The next kill may meet the process that takes over,
// so that several are one outage, which lasts for 2 s from the last one on.
const (
	apart  = 600 * time.Millisecond
	inARow = 4
)

// checkWorked holds what worksOn printed against the history and the conflicts.
func checkWorked(t *testing.T, m *harness.Mount, w *worked) {
	t.Helper()
	bound := 2*float64(harness.SlownessOf(t)) + inARow*apart.Seconds()
	if len(w.Faults) > 0 {
		t.Errorf("went wrong: %q", w.Faults)
	}
	for what, took := range w.Slowest {
		if took > bound {
			t.Errorf("%s took %.1f s at most, want at most %.1f s", what, took, bound)
		}
	}
	t.Logf("%d saves, %d lines, %d files and %d that were broken off; slowest %v", len(w.Saved), len(w.Appended), len(w.Written), len(w.Broken), w.Slowest)
	if len(w.Saved) == 0 || len(w.Appended) == 0 || len(w.Written) == 0 {
		t.Error("nothing was done")
	}
	everything := everyText(t, m)
	texts := strings.Join(everything, "\x00")
	for token := range w.Saved {
		if !strings.Contains(texts, token+token) {
			t.Errorf("%q was saved, and is nowhere", token)
		}
	}
	log := m.Sh(t, "cat log*")
	for _, one := range w.Appended {
		if strings.Count(log, one) != 1 {
			t.Errorf("%q was appended, and is there %d times", one, strings.Count(log, one))
		}
	}
	for i, one := range slices.Concat(w.Written, w.Broken) {
		if slices.ContainsFunc(everything, func(text string) bool { return strings.HasPrefix(text, one) }) {
			continue
		}
		first, _, _ := strings.Cut(one, "\n")
		t.Errorf("closed %v: what was written is nowhere: %q", i < len(w.Written), one)
		for _, text := range everything {
			if strings.Contains(text, first) {
				t.Errorf("but there is %q", text)
			}
		}
	}
}

// everyText returns the contents of all versions and of all that is kept.
func everyText(t testing.TB, m *harness.Mount) (all []string) {
	t.Helper()
	stores, err := harness.OpenEmbedded(t.Context(), m.Env.Stores)
	if err != nil {
		t.Fatal(err)
	}
	defer stores.Close()
	notes, err := stores.OpenNamed(t.Context(), "notes")
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range notes.Commits(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range c.Versions {
			if !v.Live() {
				continue
			}
			data, err := notes.Content(t.Context(), v)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(data))
		}
	}
	kept := conflict.New(filepath.Join(m.Env.Stores, "conflicts", notes.Info().ID))
	list, err := kept.ListAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, about := range list {
		data, err := kept.Read(about.ID, conflict.YoursFile)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(data))
	}
	return all
}
