package hostile

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// resident is the most memory, in MiB, that a process has had.
func resident(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	kib, _ := strconv.Atoi(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(string(text))[1])
	return kib >> 10
}

// Whatever an agent opens, writes and makes, the daemon holds no more than --max-memory
// of it, tells the agent EDQUOT, and saves its notes all the same.
func TestMemoryFlood(t *testing.T) {
	p := newPlace(t, "python3")
	p.must("store", "create", "notes")
	const budget, base = 16, 100 // MiB; the latter is what a mount with nothing to do has, and its garbage
	dir, pid := p.mount("memory", "notes", "--owner", "3001:3001", fmt.Sprintf("--max-memory=%dMiB", budget))
	floods := []string{
		`f = os.open("scratch%d~" % i, os.O_CREAT|os.O_RDWR); os.pwrite(f, b"x"*65536, i<<20)`,
		`f = os.open("long%d~" % i, os.O_CREAT|os.O_RDWR); os.ftruncate(f, 7<<20)`,
		`f = os.open("written%d" % i, os.O_CREAT|os.O_RDWR); os.write(f, b"x"*100000)`,
		`os.mkdir("d%d" % i)`,
		`f = os.open("save", os.O_RDONLY); os.read(f, 1)`,
	}
	p.sh(agent, "echo hello > memory/notes/save")
	for _, flood := range floods {
		r := p.try(agent, `cd memory/notes; python3 - <<'EOF'
import os, resource, errno
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
refused = "nothing"
for i in range(30000):
    try:
        `+flood+`
    except OSError as e:
        refused = errno.errorcode[e.errno]
        break
print(refused, flush=True)
os._exit(0) # what it wrote is left to the close that the kernel makes
EOF`)
		if got := strings.TrimSpace(r.stdout); got != "EDQUOT" && got != "EMFILE" {
			t.Errorf("%s: refused with %v", flood, r)
		}
		p.sh(agent, "cd memory/notes; echo again > save; rm -rf scratch* long* written* d*")
	}
	if text := p.sh(agent, "cat memory/notes/.mneme/errors"); strings.Count(text, "--max-memory") != 1 {
		t.Errorf("errors tell of the limit %d times, want once:\n%s", strings.Count(text, "--max-memory"), text)
	}
	if most := resident(t, pid); !harness.Raced(t) && most > budget+base {
		t.Errorf("the daemon had %d MiB, want at most %d of its programs' and %d of its own", most, budget, base)
	}
	p.must("unmount", "--at", dir)
	p.must("fsck", "notes")
}
