package conflict

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mneme/tests/harness"
)

// race is two calls at once in two mounts, and what must come of it. Paths are
// below a directory of the iteration.
type race struct {
	before []harness.Call
	a, b   harness.Call
	check  func(o outcome) string // "" or what is wrong
}

// outcome is what came of a race. Nothing else changes the directory.
type outcome struct {
	a, b  syscall.Errno
	files map[string]string // path to SHA-256, after all mounts have settled
	sums  map[string]bool   // every content that the history ever held
}

func (o outcome) both() bool { return o.a == 0 && o.b == 0 }

func (o outcome) one() bool { return (o.a == 0) != (o.b == 0) }

// holds says what is wrong when a path does not hold one of those texts.
func (o outcome) holds(path string, texts ...string) string {
	for _, text := range texts {
		if got, ok := o.files[path]; ok && got == harness.SumOf(text) || !ok && text == "" {
			return ""
		}
	}
	return fmt.Sprintf("%s holds %q, none of %q", path, o.files[path], texts)
}

var races = map[string]race{
	"create and create": {
		a: harness.Call{Op: "excl", Path: "f", Text: "a"}, b: harness.Call{Op: "excl", Path: "f", Text: "b"},
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
		before: []harness.Call{{Op: "put", Path: "f", Text: "0"}},
		a:      harness.Call{Op: "put", Path: "f", Text: "a"}, b: harness.Call{Op: "put", Path: "f", Text: "b"},
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
		before: []harness.Call{{Op: "put", Path: "f", Text: "0"}},
		a:      harness.Call{Op: "replace", Path: "f", Text: "a"}, b: harness.Call{Op: "replace", Path: "f", Text: "b"},
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
		before: []harness.Call{{Op: "put", Path: "f", Text: "0"}},
		a:      harness.Call{Op: "unlink", Path: "f"}, b: harness.Call{Op: "put", Path: "f", Text: "b"},
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
		a: harness.Call{Op: "put", Path: "n", Text: "a"}, b: harness.Call{Op: "put", Path: "n/x", Text: "b"},
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
		before: []harness.Call{{Op: "mkdir", Path: "d"}, {Op: "put", Path: "d/x", Text: "x"}, {Op: "put", Path: "d/y", Text: "y"}},
		a:      harness.Call{Op: "rename", Path: "d", To: "e"}, b: harness.Call{Op: "put", Path: "d/z", Text: "b"},
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
		before: []harness.Call{{Op: "mkdir", Path: "d"}, {Op: "put", Path: "d/x", Text: "x"}, {Op: "put", Path: "d/y", Text: "y"}},
		a:      harness.Call{Op: "rename", Path: "d", To: "e"}, b: harness.Call{Op: "put", Path: "d/x", Text: "b"},
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
		before: []harness.Call{{Op: "mkdir", Path: "d"}, {Op: "put", Path: "d/x", Text: "x"}, {Op: "put", Path: "d/y", Text: "y"}},
		a:      harness.Call{Op: "rmtree", Path: "d"}, b: harness.Call{Op: "put", Path: "d/z", Text: "b"},
		check: func(o outcome) string {
			if o.a == 0 && (o.holds("d/x", "") != "" || o.holds("d/y", "") != "") {
				return "what was removed is there"
			}
			return ""
		},
	},
	"rmdir and create": {
		before: []harness.Call{{Op: "mkdir", Path: "d"}, {Op: "put", Path: "d/x", Text: "x"}, {Op: "unlink", Path: "d/x"}},
		a:      harness.Call{Op: "rmdir", Path: "d"}, b: harness.Call{Op: "put", Path: "d/z", Text: "b"},
		check: func(o outcome) string {
			if o.b == 0 {
				return o.holds("d/z", "b")
			}
			return ""
		},
	},
	"rename and write": {
		before: []harness.Call{{Op: "put", Path: "f", Text: "0"}},
		a:      harness.Call{Op: "rename", Path: "f", To: "g"}, b: harness.Call{Op: "put", Path: "f", Text: "b"},
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
		before: []harness.Call{{Op: "put", Path: "f", Text: "f"}, {Op: "put", Path: "g", Text: "g"}},
		a:      harness.Call{Op: "rename", Path: "f", To: "t"}, b: harness.Call{Op: "rename", Path: "g", To: "t"},
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
		before: []harness.Call{{Op: "put", Path: "f", Text: "0"}},
		a:      harness.Call{Op: "append", Path: "f", Text: "a"}, b: harness.Call{Op: "append", Path: "f", Text: "b"},
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

// Two sessions make contradictory requests at the same moment: the one that is told that it went
// well has it, and all see the same afterwards.
func TestSmallRaces(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(races)) {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			races[name].run(t, harness.Times(25, 500))
		})
	}
}

func (r race) run(t *testing.T, n int) {
	e := harness.NewEnv(t)
	ma, mb := e.Mount(t, "notes"), e.Mount(t, "notes")
	a, b := ma.Agent(t), mb.Agent(t)
	in := func(i int, c harness.Call) harness.Call {
		dir := fmt.Sprintf("i%03d/", i)
		c.Path = dir + c.Path
		if c.To != "" {
			c.To = dir + c.To
		}
		return c
	}
	for i := range n {
		for _, c := range append([]harness.Call{{Op: "mkdir"}, {Op: "put", Path: "here", Text: "x"}}, r.before...) {
			a.Must(t, in(i, c))
		}
	}
	e.Settled(t, "notes", ma, mb)
	outcomes := make([]outcome, n)
	for i := range n {
		var work sync.WaitGroup
		work.Go(func() { outcomes[i].a = a.Do(t, in(i, r.a)).Errno })
		work.Go(func() {
			if c := in(i, r.b); r.b.Path == "n/x" {
				if outcomes[i].b = b.Do(t, harness.Call{Op: "mkdir", Path: filepath.Dir(c.Path)}).Errno; outcomes[i].b == 0 {
					outcomes[i].b = b.Do(t, c).Errno
				}
			} else {
				outcomes[i].b = b.Do(t, c).Errno
			}
		})
		work.Wait()
		if t.Failed() {
			return
		}
	}
	files := e.Settled(t, "notes", ma, mb)
	sums := harness.Contents(e.Commits(t, "notes"))
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
			harness.Call
			syscall.Errno
		}{{r.a, o.a}, {r.b, o.b}} {
			if c.Errno == 0 && c.Text != "" && c.Op != "append" && !sums[harness.SumOf(c.Text)] {
				t.Errorf("iteration %d: %v was acknowledged and is not in the history", i, c.Call)
			}
		}
		if wrong := r.check(o); wrong != "" {
			t.Errorf("iteration %d: %s; errors: %v, %v; there is %v; history:\n%v", i, wrong, say(o.a), say(o.b), o.files,
				strings.Join(e.ChangesBelow(t, "notes", fmt.Sprintf("/i%03d", i)), "\n"))
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
