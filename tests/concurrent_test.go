package tests

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// losing are the errors that a program may get because another session was
// faster.
var losing = []syscall.Errno{
	0, syscall.ESTALE, syscall.EEXIST, syscall.ENOENT, syscall.ENOTDIR, syscall.EISDIR, syscall.ENOTEMPTY,
}

// Two and four mounts of one store and the command line change the same few
// paths at once. Afterwards all show the same, the history is whole, and
// nothing that was acknowledged is missing from it.
func TestMountsOfOneStore(t *testing.T) {
	for _, mounts := range []int{2, 4} {
		t.Run(fmt.Sprint(mounts), func(t *testing.T) {
			e := newEnv(t)
			w := &workload{env: e, done: map[string]int{}, failed: map[string]int{}}
			for range mounts {
				m := e.mount(t, "notes")
				w.mounts = append(w.mounts, m)
				w.agents = append(w.agents, m.agent(t))
			}
			rounds := times(4, 60)
			for round := range rounds {
				w.run(t, round)
				e.settled(t, "notes", w.mounts...)
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

// workload is random changes by several agents and the command line.
type workload struct {
	env    *env
	mounts []*mount
	agents []*agent

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
				r := a.do(t, c)
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
func (w *workload) next(random *rand.Rand) call {
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
		return call{Op: "put", Path: file(), Text: text + strings.Repeat("more\n", random.IntN(2000))}
	case n < 9:
		return call{Op: "replace", Path: file(), Text: text}
	case n < 12:
		return call{Op: "append", Path: file(), Text: text}
	case n < 13:
		return call{Op: "excl", Path: file(), Text: text}
	case n < 15:
		return call{Op: "unlink", Path: file()}
	case n < 18:
		return call{Op: "rename", Path: file(), To: file()}
	case n < 19:
		return call{Op: "rename", Path: dir(), To: dir()}
	case n < 20:
		return call{Op: "rmtree", Path: dir()}
	case n < 21:
		return call{Op: "read", Path: file()}
	case n < 22:
		return call{Op: "list", Path: dir()}
	}
	return call{Op: "mkdir", Path: dir()}
}

// note keeps what was acknowledged.
func (w *workload) note(t *testing.T, c call, errno syscall.Errno) {
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
			w.sums = append(w.sums, sumOf(c.Text))
		}
	}
}

// command does with the command line what an agent would do.
func (w *workload) command(t *testing.T, c call) {
	var r result
	switch c.Op {
	case "put", "replace", "append":
		c.Op = "put"
		r = w.env.mnemeIn(t, c.Text, "write", "notes:/"+c.Path)
	case "excl":
		r = w.env.mnemeIn(t, c.Text, "write", "--if-absent", "notes:/"+c.Path)
	case "rename":
		r = w.env.mnemeIn(t, "", "mv", "notes:/"+c.Path, "notes:/"+c.To)
	case "unlink":
		r = w.env.mnemeIn(t, "", "rm", "notes:/"+c.Path)
	default:
		return
	}
	switch r.code {
	case 0:
		w.note(t, c, 0)
	case 2, 3, 4: // 2: a directory into itself, or a directory to rm
		w.note(t, c, syscall.ESTALE)
	default:
		t.Errorf("mneme %v: %v", c, r)
	}
}

// check looks for everything that was acknowledged in the history.
func (w *workload) check(t *testing.T) {
	t.Helper()
	sums := contents(w.env.commits(t, "notes"))
	for _, sum := range w.sums {
		if !sums[sum] {
			t.Errorf("content %s was acknowledged and is not in the history", sum)
		}
	}
	written := map[string]bool{}
	for sum := range sums {
		for line := range strings.Lines(w.env.blob(t, sum)) {
			written[line] = true
		}
	}
	for _, line := range w.lines {
		if !written[line] {
			t.Errorf("%q was acknowledged and is in no version", line)
		}
	}
}

// blob reads a content from the store's files.
func (e *env) blob(t testing.TB, sum string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(e.stores, "stores", "*", "blobs", sum[:2], sum))
	if err != nil || len(files) != 1 {
		t.Fatalf("blob %s: found %v, %v", sum, files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if got := sumOf(string(data)); got != sum {
		t.Errorf("blob %s holds something else, of %d bytes", sum, len(data))
	}
	return string(data)
}

// race is two calls at once in two mounts, and what must come of it. Paths are
// below a directory of the iteration.
type race struct {
	before []call
	a, b   call
	check  func(o outcome) string // "" or what is wrong
}

// outcome is what came of a race. Nothing else changes the directory.
type outcome struct {
	a, b  syscall.Errno
	files map[string]string // path to SHA-256, after all mounts have settled
	sums  map[string]bool   // every content that the history ever held
}

func (o outcome) both() bool { return o.a == 0 && o.b == 0 }
func (o outcome) one() bool  { return (o.a == 0) != (o.b == 0) }

// holds says what is wrong when a path does not hold one of those texts.
func (o outcome) holds(path string, texts ...string) string {
	for _, text := range texts {
		if got, ok := o.files[path]; ok && got == sumOf(text) || !ok && text == "" {
			return ""
		}
	}
	return fmt.Sprintf("%s holds %q, none of %q", path, o.files[path], texts)
}

var races = map[string]race{
	"create and create": {
		a: call{Op: "excl", Path: "f", Text: "a"}, b: call{Op: "excl", Path: "f", Text: "b"},
		check: func(o outcome) string {
			switch {
			case !o.one():
				return "exactly one may make it"
			case o.a == 0:
				return o.holds("f", "a")
			}
			return o.holds("f", "b")
		},
	},
	"write and write": {
		before: []call{{Op: "put", Path: "f", Text: "0"}},
		a:      call{Op: "put", Path: "f", Text: "a"}, b: call{Op: "put", Path: "f", Text: "b"},
		check: func(o outcome) string {
			switch {
			case o.both():
				return o.holds("f", "a", "b")
			case o.a == 0:
				return o.holds("f", "a")
			case o.b == 0:
				return o.holds("f", "b")
			}
			return "one of them must win"
		},
	},
	"save and save": {
		before: []call{{Op: "put", Path: "f", Text: "0"}},
		a:      call{Op: "replace", Path: "f", Text: "a"}, b: call{Op: "replace", Path: "f", Text: "b"},
		check: func(o outcome) string {
			switch {
			case o.both():
				return o.holds("f", "a", "b")
			case o.a == 0:
				return o.holds("f", "a")
			case o.b == 0:
				return o.holds("f", "b")
			}
			return "one of them must win"
		},
	},
	"unlink and write": {
		before: []call{{Op: "put", Path: "f", Text: "0"}},
		a:      call{Op: "unlink", Path: "f"}, b: call{Op: "put", Path: "f", Text: "b"},
		check: func(o outcome) string {
			switch {
			case o.both():
				return o.holds("f", "", "b")
			case o.a == 0:
				return o.holds("f", "")
			case o.b == 0:
				return o.holds("f", "b")
			}
			return "one of them must win"
		},
	},
	"file and directory": {
		a: call{Op: "put", Path: "n", Text: "a"}, b: call{Op: "put", Path: "n/x", Text: "b"},
		check: func(o outcome) string {
			switch {
			case o.both():
				return "a name cannot be both"
			case o.a == 0:
				return o.holds("n", "a") + o.holds("n/x", "")
			case o.b == 0:
				return o.holds("n/x", "b") + o.holds("n", "")
			}
			return ""
		},
	},
	"rename directory and write inside": {
		before: []call{{Op: "mkdir", Path: "d"}, {Op: "put", Path: "d/x", Text: "x"}, {Op: "put", Path: "d/y", Text: "y"}},
		a:      call{Op: "rename", Path: "d", To: "e"}, b: call{Op: "put", Path: "d/z", Text: "b"},
		check: func(o outcome) string {
			switch {
			case o.both():
				if o.holds("d/z", "b") != "" && o.holds("e/z", "b") != "" {
					return "what was written is gone"
				}
				return o.holds("e/x", "x") + o.holds("e/y", "y")
			case o.a == 0:
				return o.holds("e/x", "x") + o.holds("e/y", "y")
			}
			return o.holds("d/x", "x") + o.holds("d/y", "y")
		},
	},
	"rename directory and rewrite inside": {
		before: []call{{Op: "mkdir", Path: "d"}, {Op: "put", Path: "d/x", Text: "x"}, {Op: "put", Path: "d/y", Text: "y"}},
		a:      call{Op: "rename", Path: "d", To: "e"}, b: call{Op: "put", Path: "d/x", Text: "b"},
		check: func(o outcome) string {
			if o.b == 0 && o.holds("d/x", "b") != "" && o.holds("e/x", "b") != "" {
				return "what was written is gone"
			}
			if o.b != 0 && o.holds("d/x", "x") != "" && o.holds("e/x", "x") != "" {
				return "what was there is gone"
			}
			return ""
		},
	},
	"rm -r and create": {
		before: []call{{Op: "mkdir", Path: "d"}, {Op: "put", Path: "d/x", Text: "x"}, {Op: "put", Path: "d/y", Text: "y"}},
		a:      call{Op: "rmtree", Path: "d"}, b: call{Op: "put", Path: "d/z", Text: "b"},
		check: func(o outcome) string {
			if o.a == 0 && (o.holds("d/x", "") != "" || o.holds("d/y", "") != "") {
				return "what was removed is there"
			}
			return ""
		},
	},
	"rmdir and create": {
		before: []call{{Op: "mkdir", Path: "d"}, {Op: "put", Path: "d/x", Text: "x"}, {Op: "unlink", Path: "d/x"}},
		a:      call{Op: "rmdir", Path: "d"}, b: call{Op: "put", Path: "d/z", Text: "b"},
		check: func(o outcome) string {
			if o.b == 0 {
				return o.holds("d/z", "b")
			}
			return ""
		},
	},
	"rename and write": {
		before: []call{{Op: "put", Path: "f", Text: "0"}},
		a:      call{Op: "rename", Path: "f", To: "g"}, b: call{Op: "put", Path: "f", Text: "b"},
		check: func(o outcome) string {
			if o.b == 0 && o.holds("f", "b") != "" && o.holds("g", "b") != "" {
				return "what was written is gone"
			}
			if o.a == 0 && o.holds("g", "0", "b") != "" {
				return "what was renamed is gone"
			}
			return ""
		},
	},
	"rename and rename": {
		before: []call{{Op: "put", Path: "f", Text: "f"}, {Op: "put", Path: "g", Text: "g"}},
		a:      call{Op: "rename", Path: "f", To: "t"}, b: call{Op: "rename", Path: "g", To: "t"},
		check: func(o outcome) string {
			switch {
			case o.both():
				return o.holds("t", "f", "g") + o.holds("f", "") + o.holds("g", "")
			case o.a == 0:
				return o.holds("t", "f") + o.holds("g", "g")
			case o.b == 0:
				return o.holds("t", "g") + o.holds("f", "f")
			}
			return "one of them must win"
		},
	},
	"append and append": {
		before: []call{{Op: "put", Path: "f", Text: "0"}},
		a:      call{Op: "append", Path: "f", Text: "a"}, b: call{Op: "append", Path: "f", Text: "b"},
		check: func(o outcome) string {
			switch {
			case o.both():
				return o.holds("f", "0ab", "0ba")
			case o.a == 0:
				return o.holds("f", "0a")
			case o.b == 0:
				return o.holds("f", "0b")
			}
			return "one of them must win"
		},
	},
}

// Two sessions want contradictory things at the same moment: whoever is
// told that it went well has it, and all see the same afterwards.
func TestSmallRaces(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(races)) {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			races[name].run(t, times(25, 500))
		})
	}
}

func (r race) run(t *testing.T, n int) {
	e := newEnv(t)
	ma, mb := e.mount(t, "notes"), e.mount(t, "notes")
	a, b := ma.agent(t), mb.agent(t)
	in := func(i int, c call) call {
		dir := fmt.Sprintf("i%03d/", i)
		c.Path = dir + c.Path
		if c.To != "" {
			c.To = dir + c.To
		}
		return c
	}
	for i := range n {
		for _, c := range append([]call{{Op: "mkdir"}, {Op: "put", Path: "here", Text: "x"}}, r.before...) {
			a.must(t, in(i, c))
		}
	}
	e.settled(t, "notes", ma, mb)
	outcomes := make([]outcome, n)
	for i := range n {
		var work sync.WaitGroup
		work.Go(func() { outcomes[i].a = a.do(t, in(i, r.a)).Errno })
		work.Go(func() {
			if c := in(i, r.b); r.b.Path == "n/x" {
				if outcomes[i].b = b.do(t, call{Op: "mkdir", Path: filepath.Dir(c.Path)}).Errno; outcomes[i].b == 0 {
					outcomes[i].b = b.do(t, c).Errno
				}
			} else {
				outcomes[i].b = b.do(t, c).Errno
			}
		})
		work.Wait()
		if t.Failed() {
			return
		}
	}
	files := e.settled(t, "notes", ma, mb)
	sums := contents(e.commits(t, "notes"))
	counts := map[string]int{}
	for i, o := range outcomes {
		o.files, o.sums = below(files, fmt.Sprintf("/i%03d/", i)), sums
		counts[fmt.Sprintf("%v and %v", say(o.a), say(o.b))]++
		for _, errno := range []syscall.Errno{o.a, o.b} {
			if !slices.Contains(losing, errno) {
				t.Errorf("iteration %d: errors %v, %v", i, say(o.a), say(o.b))
			}
		}
		for _, c := range []struct {
			call
			syscall.Errno
		}{{r.a, o.a}, {r.b, o.b}} {
			if c.Errno == 0 && c.Text != "" && c.Op != "append" && !sums[sumOf(c.Text)] {
				t.Errorf("iteration %d: %v was acknowledged and is not in the history", i, c.call)
			}
		}
		if wrong := r.check(o); wrong != "" {
			t.Errorf("iteration %d: %s; errors: %v, %v; there is %v; history:\n%v", i, wrong, say(o.a), say(o.b), o.files,
				strings.Join(e.changesBelow(t, "notes", fmt.Sprintf("/i%03d", i)), "\n"))
		}
	}
	t.Logf("%d times: %v", n, counts)
}

func say(errno syscall.Errno) string {
	if errno == 0 {
		return "ok"
	}
	return errno.Error()
}

func below(files map[string]string, dir string) map[string]string {
	found := map[string]string{}
	for path, sum := range files {
		if name, ok := strings.CutPrefix(path, dir); ok {
			found[name] = sum
		}
	}
	return found
}
