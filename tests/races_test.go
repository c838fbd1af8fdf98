package tests

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

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
