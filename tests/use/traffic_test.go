package use

import (
	"fmt"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// traffic is a mount of a store with 20 directories of 20 files.
const (
	trafficFiles = 400
	makeTraffic  = `for d in $(seq 20); do mkdir d$d; for f in $(seq 20); do echo "text $d $f" > d$d/f$f; done; done`
	walkTraffic  = `grep -r text . > "$HOME/out"; test $(wc -l < "$HOME/out") = 400; find . -type f > /dev/null; ls -lR > /dev/null; cat d*/f* > /dev/null`
)

// secondWalk returns what a second walk causes. Of the first one some files must
// be in the kernel before they are asked for.
func secondWalk(t *testing.T, m *harness.Mount, isFew func(caused map[string]int) bool) map[string]int {
	t.Helper()
	walk := func() { m.Sh(t, walkTraffic) }
	if caused := m.During(t, walk); caused["READ"] >= trafficFiles {
		t.Errorf("the first walk over %d files causes %v; none was pushed before it was asked for", trafficFiles, caused)
	}
	return calmest(t, m, walk, isFew)
}

// calmest returns the requests that do causes. It does it up to four times, until they are few:
// meanwhile the commands of other tests may look into all mounts of the machine.
func calmest(t *testing.T, m *harness.Mount, do func(), isFew func(caused map[string]int) bool) (caused map[string]int) {
	t.Helper()
	for range 4 {
		if caused = m.During(t, do); isFew(caused) {
			break
		}
	}
	return caused
}

// TestQuietWhenReadOnly holds that a mount without a writable store answers
// what it has answered before without being asked again, and still shows what
// others change.
func TestQuietWhenReadOnly(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	w := e.Mount(t, "notes")
	w.Sh(t, makeTraffic)
	m := e.Mount(t, "notes:ro", "--metrics-addr=:0")
	few := func(caused map[string]int) bool {
		total := 0
		for _, n := range caused {
			total += n
		}
		return total <= 10
	}
	if caused := secondWalk(t, m, few); !few(caused) {
		t.Errorf("walking %d files again, four times, causes %v", trafficFiles, caused)
	}
	for i := range 5 {
		w.Sh(t, fmt.Sprintf(`echo "longer than before %d" > d3/f3; rm d4/f%d; echo new > d5/new%d; mv d6/f%d d7/moved%d; mkdir -p deep%d/er; echo x > deep%d/er/f`, i, i+1, i, i+1, i, i, i))
		sees(t, m, fmt.Sprintf(`test "$(cat d3/f3)" = "longer than before %d"; test ! -e d4/f%d; test "$(ls d4 | wc -l)" = %d; test "$(cat d5/new%d)" = new
			test "$(ls d5 | wc -l)" = %d; test ! -e d6/f%d; test -e d7/moved%d; test "$(ls d7 | wc -l)" = %d; test "$(cat deep%d/er/f)" = x; test "$(ls | wc -l)" = %d`,
			i, i+1, 19-i, i, 21+i, i+1, i, 21+i, i, 21+i))
	}
}

// TestFewRequestsWhenWritable holds what a second pass over a writable mount
// costs: an open for each file that is read, and next to nothing else.
func TestFewRequestsWhenWritable(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Mount(t, "notes").Sh(t, makeTraffic)
	m := e.Mount(t, "notes", "--metrics-addr=:0")
	const reads = 2 * trafficFiles // grep and cat
	most := map[string]int{
		"OPEN": reads + 5, "GETATTR": reads / 20, "LOOKUP": 10, "READ": 5, "FLUSH": 0, "READDIRPLUS": 50, "READDIR": 0,
		"GETXATTR": 10, "LISTXATTR": 0,
	}
	few := func(caused map[string]int) bool {
		for kind, n := range most {
			if caused[kind] > n {
				return false
			}
		}
		return true
	}
	if caused := secondWalk(t, m, few); !few(caused) {
		t.Errorf("it causes %v, want at most %v", caused, most)
	}
}

// TestListingsAfterReads holds that what the kernel doubts after it has read
// files is renewed by the next listing, and not file by file.
func TestListingsAfterReads(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Mount(t, "notes").Sh(t, makeTraffic)
	m := e.Mount(t, "notes", "--metrics-addr=:0")
	m.Sh(t, `ls -lR > /dev/null; cat d*/f* > /dev/null`)
	caused := m.During(t, func() { m.Sh(t, `find . -newermt 2100-01-01; find . -size +1000`) })
	if caused["GETATTR"] > trafficFiles/20 || caused["READDIRPLUS"] > 50 {
		t.Errorf("two walks after reading %d files cause %v", trafficFiles, caused)
	}
}

// TestControlFilesWithoutOpens holds that the files of .mneme can be read whole
// and show what is new in a mount whose files the kernel opens by itself.
func TestControlFilesWithoutOpens(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes:ro")
	for i := range 12 {
		e.MustIn(t, fmt.Sprintf("text %d\n", i), "write", fmt.Sprintf("notes:/f%d", i))
		sees(t, m, fmt.Sprintf(`grep -qx 'memories: %d' .mneme/status; test "$(tail -n 1 .mneme/status | cut -d : -f 1)" = url
			test "$(stat -c %%s .mneme/status)" = "$(cat .mneme/status | wc -c)"
			test "$(stat -c %%s .mneme/README)" = "$(cat .mneme/README | wc -c)"; grep -q read-only .mneme/README`, i+1))
	}
	if out := m.Sh(t, `cat .mneme/errors; ls .mneme`); out != "README\nat\nerrors\nevents\nnote\npack\nstatus\nversions\n" {
		t.Errorf("there is %q", out)
	}
	e.Spoil(t, e.Versions(t, "notes:/f3")[0].SHA256, `UPDATE blobs SET data = x'' WHERE sha256 = ?`)
	for range 2 {
		m.Sh(t, `! cat f3 2> /dev/null`)
	}
	sees(t, m, `test "$(grep -c 'read .*:/f3' .mneme/errors)" = 1`)
	if out := m.Sh(t, `cat .mneme/errors`); !strings.Contains(out, "blob is corrupt") {
		t.Errorf("the errors are %q", out)
	}
}

// TestControlFilesAreKept holds that files below .mneme that never change are read once, and that
// nothing that the kernel has of .mneme is out of date: the guide of a store that is archived,
// and the conflicts that are left.
func TestControlFilesAreKept(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes", "--metrics-addr=:0")
	m.Lose(t, "f", "one", "two", "mine")
	m.Sh(t, `grep -q 'read and write' .mneme/note`)
	const read = `cat .mneme/README .mneme/conflicts/1/base .mneme/conflicts/1/theirs > "$HOME/out"; stat -c %s .mneme/README .mneme/conflicts/1/base`
	m.Sh(t, read)
	sizes := strings.Fields(m.Sh(t, read+`; wc -c < .mneme/README`))
	none := func(caused map[string]int) bool { return caused["READ"]+caused["GETATTR"] == 0 }
	if caused := calmest(t, m, func() { m.Sh(t, read+"; "+read) }, none); !none(caused) {
		t.Errorf("reading what never changes causes %v", caused)
	}
	if len(sizes) != 3 || sizes[0] != sizes[2] || sizes[1] != "3" {
		t.Errorf("the sizes are %q, the first is that of the third, the second 3", sizes)
	}
	if caused := m.During(t, func() { m.Sh(t, "cat .mneme/status .mneme/errors .mneme/conflicts/1/yours") }); caused["READ"] < 3 {
		t.Errorf("reading what changes causes %v", caused)
	}
	e.Must(t, "conflicts", "resolve", "notes", "1", "--take", "theirs")
	e.Must(t, "store", "archive", "notes", "--yes", "--force")
	m.Sh(t, `! echo x 2> "$HOME/err" > g; grep -q Read-only "$HOME/err"`)
	m.Eventually(t, `grep -q 'The store is read-only here' .mneme/README; test "$(stat -c %s .mneme/README)" = "$(wc -c < .mneme/README)"; test ! -e .mneme/conflicts/1`)
	m.Sh(t, `grep -q read-only .mneme/note; test "$(stat -c %s .mneme/note)" = "$(wc -c < .mneme/note)"`)
}
