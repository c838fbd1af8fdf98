package conflict

import (
	"strings"
	"testing"

	"mneme/tests/harness"
)

// locksBy has two sessions, whose directories are its arguments, make the same names. It prints what
// came of that: for a name that is made while another session has it open, after it was closed, and
// for names that both make at the same time.
const locksBy = `
import os, sys, threading
a, b = sys.argv[1:]
def exclusive(path): return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
def won(do, path):
    try: return [do(path)]
    except OSError: return []  # EEXIST, or EBUSY of the close
def closed(path):
    f = exclusive(path)
    try: os.write(f, path.encode())  # which differs: equal bytes are no conflict
    finally: os.close(f)
first = exclusive(a + "/open")
for f in won(exclusive, b + "/open"):
    print("open: both")
    os.close(f)
os.close(first)
for name, do in ("closed", closed), ("directory", os.mkdir):
    do(a + "/" + name)
    print(name, "after:", len(won(do, b + "/" + name)))
    winners = set()
    for i in range(25):
        wins = []
        threads = [threading.Thread(target=lambda d: wins.extend(won(do, "%s/%s%d" % (d, name, i))), args=(d,)) for d in (a, b)]
        for t in threads: t.start()
        for t in threads: t.join()
        winners.add(len(wins))
    print(name, "at once:", *sorted(winners))
`

// TestExclusiveCreation: of several sessions, one makes a directory, or a file with O_EXCL and a text
// of its own that is closed at once. A file that stays open is not in the history yet, and excludes
// no session.
func TestExclusiveCreation(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	e := harness.NewEnv(t)
	a, b := e.Mount(t, "notes"), e.Mount(t, "notes")
	r := e.Run(t, harness.ScriptPatience, "", func() { a.Abort(); b.Abort() }, "python3", "-c", locksBy, a.Dir, b.Dir)
	want := "open: both\nclosed after: 0\nclosed at once: 1\ndirectory after: 0\ndirectory at once: 1\n"
	if r.Code != 0 || r.Stdout != want {
		t.Errorf("exit code %d\n%s%s, want\n%s", r.Code, r.Stdout, strings.TrimSpace(r.Stderr), want)
	}
}
