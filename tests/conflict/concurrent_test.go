package conflict

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mneme/tests/harness"
)

// losing are the errors that a program may get because another session was
// faster.
var losing = []syscall.Errno{
	0, syscall.EBUSY, syscall.EEXIST, syscall.ENOENT, syscall.ENOTDIR, syscall.EISDIR, syscall.ENOTEMPTY,
}

// Two and four mounts of one store and the command line change the same few
// paths at once. Afterwards all show the same, the history is whole, and
// nothing that was acknowledged is missing from it.
func TestMountsOfOneStore(t *testing.T) {
	for _, mounts := range []int{2, 4} {
		t.Run(fmt.Sprint(mounts), func(t *testing.T) {
			e := harness.NewEnv(t)
			w := &workload{env: e, done: map[string]int{}, failed: map[string]int{}}
			for range mounts {
				m := e.Mount(t, "notes")
				w.mounts = append(w.mounts, m)
				w.agents = append(w.agents, m.Agent(t))
			}
			rounds := harness.Times(4, 60)
			if e.Remote != nil { // where changes take up to a second to arrive
				rounds = harness.Times(1, 15)
			}
			for round := range rounds {
				w.run(t, round)
				e.Settled(t, "notes", w.mounts...)
				if t.Failed() {
					t.FailNow()
				}
			}
			w.check(t)
			t.Logf("%d acknowledged changes, in the history: %d written lines; done %v, lost %v", w.acked, len(w.lines), w.done, w.failed)
			if w.acked < 20*rounds || len(w.lines) < 10*rounds || len(w.failed) == 0 {
				t.Errorf("that is too little to show anything")
			}
		})
	}
}

// TestLocksAreOfOneMount holds that a lock excludes the programs of its mount
// only.
func TestLocksAreOfOneMount(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	here, there := e.Mount(t, "notes"), e.Mount(t, "notes")
	here.Sh(t, `echo x > f`)
	out := here.Sh(t, `exec 3< f; flock 3; flock -n f true || echo locked; cd '`+there.Dir+`'; flock -n f echo free`)
	if out != "locked\nfree\n" {
		t.Errorf("flock said %q", out)
	}
}

// workload is random changes by several agents and the command line.
type workload struct {
	env    *harness.Env
	mounts []*harness.Mount
	agents []*harness.Agent

	mu     sync.Mutex
	n      int
	acked  int
	lines  []string       // acknowledged: each must be in the content of some version
	sums   []string       // acknowledged: each must be the content of some version
	done   map[string]int // by operation
	failed map[string]int
}

func (w *workload) run(t *testing.T, round int) {
	var work sync.WaitGroup
	for i, a := range w.agents {
		work.Go(func() {
			random := rand.New(rand.NewPCG(uint64(round), uint64(i)))
			for range 60 {
				c := w.next(random)
				r := a.Do(t, c)
				w.note(t, c, r.Errno)
				if t.Failed() {
					return
				}
			}
		})
	}
	work.Go(func() {
		random := rand.New(rand.NewPCG(uint64(round), 99))
		for range 12 {
			w.command(t, w.next(random))
		}
	})
	work.Wait()
}

// next makes up something to do: few names, so that it hits what others do.
func (w *workload) next(random *rand.Rand) harness.Call {
	dir := func() string { return []string{"d1", "d2", "d1/e"}[random.IntN(3)] }
	file := func() string {
		name := fmt.Sprintf("f%d", random.IntN(4))
		if random.IntN(3) > 0 {
			name = dir() + "/" + name
		}
		return name
	}
	w.mu.Lock()
	w.n++
	text := fmt.Sprintf("line %d %x\n", w.n, random.Uint64())
	w.mu.Unlock()
	switch n := random.IntN(24); {
	case n < 6:
		return harness.Call{Op: "put", Path: file(), Text: text + strings.Repeat("more\n", random.IntN(2000))}
	case n < 9:
		return harness.Call{Op: "replace", Path: file(), Text: text}
	case n < 12:
		return harness.Call{Op: "append", Path: file(), Text: text}
	case n < 13:
		return harness.Call{Op: "excl", Path: file(), Text: text}
	case n < 15:
		return harness.Call{Op: "unlink", Path: file()}
	case n < 18:
		return harness.Call{Op: "rename", Path: file(), To: file()}
	case n < 19:
		return harness.Call{Op: "rename", Path: dir(), To: dir()}
	case n < 20:
		return harness.Call{Op: "rmtree", Path: dir()}
	case n < 21:
		return harness.Call{Op: "read", Path: file()}
	case n < 22:
		return harness.Call{Op: "list", Path: dir()}
	}
	return harness.Call{Op: "mkdir", Path: dir()}
}

// note keeps what was acknowledged.
func (w *workload) note(t *testing.T, c harness.Call, errno syscall.Errno) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errno != 0 {
		w.failed[c.Op]++
		self := c.Op == "rename" && strings.HasPrefix(c.To+"/", c.Path+"/") // a directory into itself
		if !slices.Contains(losing, errno) && !(self && errno == syscall.EINVAL) {
			t.Errorf("%v: %v", c, errno)
		}
		return
	}
	w.done[c.Op]++
	if c.Op == "read" || c.Op == "list" || c.Op == "mkdir" {
		return
	}
	w.acked++
	if c.Text != "" {
		w.lines = append(w.lines, c.Text[:strings.IndexByte(c.Text, '\n')+1])
		if c.Op != "append" {
			w.sums = append(w.sums, harness.SumOf(c.Text))
		}
	}
}

// command does with the command line what an agent would do.
func (w *workload) command(t *testing.T, c harness.Call) {
	var r harness.Result
	switch c.Op {
	case "put", "replace", "append":
		c.Op = "put"
		r = w.env.MnemeIn(t, c.Text, "write", "notes:/"+c.Path)
	case "excl":
		r = w.env.MnemeIn(t, c.Text, "write", "--if-absent", "notes:/"+c.Path)
	case "rename":
		r = w.env.MnemeIn(t, "", "mv", "notes:/"+c.Path, "notes:/"+c.To)
	case "unlink":
		r = w.env.MnemeIn(t, "", "rm", "notes:/"+c.Path)
	default:
		return
	}
	switch r.Code {
	case 0:
		w.note(t, c, 0)
	case 2, 3, 4: // 2: a directory into itself, or a directory to rm
		w.note(t, c, syscall.EBUSY)
	default:
		t.Errorf("mneme %v: %v", c, r)
	}
}

// check looks for everything that was acknowledged in the history.
func (w *workload) check(t *testing.T) {
	t.Helper()
	sums := harness.Contents(w.env.Commits(t, "notes"))
	for _, sum := range w.sums {
		if !sums[sum] {
			t.Errorf("content %s was acknowledged and is not in the history", sum)
		}
	}
	written := map[string]bool{}
	blob := func(sum string) string { return w.env.RemoteBlob(t, sum) }
	if w.env.Remote == nil {
		blobs := w.env.EmbeddedBlobs(t)
		blob = func(sum string) string {
			if _, ok := blobs[sum]; !ok {
				t.Errorf("there is no blob %s", sum)
			}
			return blobs[sum]
		}
	}
	for sum := range sums {
		for line := range strings.Lines(blob(sum)) {
			written[line] = true
		}
	}
	for _, line := range w.lines {
		if !written[line] {
			t.Errorf("%q was acknowledged and is in no version", line)
		}
	}
}
