package aws

import (
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"mneme/tests/harness"
)

// TestTwoMachines holds that two mounts that share nothing on the machine, as
// those of two machines, see what the other one writes: new files, new contents,
// removals. How long that takes is logged.
func TestTwoMachines(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	e := harness.NewEnv(t)
	e.OwnServers()
	e.Store("notes")
	here := e.Mount(t, "notes", "--cache-dir="+filepath.Join(e.Dir, "here"))
	there := e.Mount(t, "notes", "--cache-dir="+filepath.Join(e.Dir, "there"))
	rounds := harness.Times(4, 167)
	r := e.Run(t, time.Duration(rounds)*harness.ScriptPatience, `
import json, os, sys, time
here, there, rounds, patience = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
os.chdir(here)
def content(path):
    try:
        with open(path) as f: return f.read()
    except FileNotFoundError:
        return None
def arrives(name, want):
    start = time.perf_counter()
    while content(os.path.join(there, name)) != want:
        if time.perf_counter() - start > patience: raise SystemExit(f"{name} never became {want!r}")
        time.sleep(.002)
    return time.perf_counter() - start
def write(name, text):
    with open(name, "w") as f: f.write(text)
    return arrives(name, text)
delays = []
for i in range(rounds):
    name = f"f{i}"
    delays.append(write(name, f"first {i}\n"))
    delays.append(write(name, f"second of {i}\n"))
    os.remove(name)
    delays.append(arrives(name, None))
print(json.dumps(delays))
`, func() {}, "python3", "-", here.Dir, there.Dir, strconv.Itoa(rounds), strconv.Itoa(int(harness.ScriptPatience.Seconds())))
	if r.Code != 0 {
		t.Fatal(r)
	}
	delays := harness.DecodeLines[[]float64](t, r.Stdout)[0]
	slices.Sort(delays)
	at := func(q float64) time.Duration {
		return time.Duration(delays[int(q*float64(len(delays)-1))] * float64(time.Second)).Round(time.Millisecond)
	}
	t.Logf("%d changes: seen after p50 %v, p99 %v, at most %v", len(delays), at(.5), at(.99), at(1))
}
