package archtest

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestLocked says what counts as a call with a lock held. Each case is the body of a
// method of a type with the lock t.mu.
func TestLocked(t *testing.T) {
	tests := []struct {
		name, method, body string
		want               string // part of the report; "" when nothing is reported
	}{
		{"nothing", "f", "t.g()", ""},
		{"no lock", "f", "t.gLocked()", "gLocked is called without a lock"},
		{"between", "f", "t.mu.Lock(); t.gLocked(); t.mu.Unlock()", ""},
		{"between, for reading", "f", "t.mu.RLock(); t.gLocked(); t.mu.RUnlock()", ""},
		{"before", "f", "t.gLocked(); t.mu.Lock()", "gLocked is called"},
		{"after", "f", "t.mu.Lock(); t.mu.Unlock(); t.gLocked()", "gLocked is called"},
		{"a deferred unlock", "f", "t.mu.Lock(); defer t.mu.Unlock(); t.gLocked()", ""},
		{"another lock given back", "f", "t.mu.Lock(); t.leaf.Lock(); t.leaf.Unlock(); t.gLocked()", ""},
		{"in an operand", "f", "return g(1, h(t.gLocked()))", "gLocked is called"},
		{"of a generic function", "f", "gLocked[int](1)", "gLocked is called"},
		{"a chain", "f", "t.g().hLocked().h()", "hLocked is called"},
		{"a variable", "f", "var x = t.gLocked(); _ = x", "gLocked is called"},

		{"from one that is locked", "fLocked", "t.gLocked()", ""},
		{"from one that is locked, and takes a leaf", "fLocked", "t.leaf.Lock(); t.leaf.Unlock(); t.gLocked()", ""},
		{"an unlock of the caller's", "fLocked", "t.mu.Unlock(); t.wait(); t.mu.Lock()", "t.mu is unlocked, which the caller has locked"},
		{"a deferred unlock of the caller's", "fLocked", "defer t.mu.Unlock()", "t.mu is unlocked"},
		{"a lock of its own mu", "fLocked", "t.mu.Lock(); defer t.mu.Unlock()", "t.mu, which the caller holds, is locked"},
		{"a lock of another's mu", "fLocked", "t.next.mu.Lock(); defer t.next.mu.Unlock()", ""},

		{"a branch that unlocks and leaves", "f", "t.mu.Lock(); if x { t.mu.Unlock(); return }; t.gLocked()", ""},
		{"a branch that unlocks and panics", "f", "t.mu.Lock(); if x { t.mu.Unlock(); panic(1) }; t.gLocked()", ""},
		{"a branch that unlocks", "f", "t.mu.Lock(); if x { t.mu.Unlock() }; t.gLocked()", "gLocked is called"},
		{"a branch that locks", "f", "if x { t.mu.Lock() }; t.gLocked()", "gLocked is called"},
		{"both branches lock", "f", "if x { t.mu.Lock() } else { t.mu.RLock() }; t.gLocked()", ""},
		{"an else that unlocks", "f", "t.mu.Lock(); if x { } else { t.mu.Unlock(); t.gLocked() }", "gLocked is called"},
		{"a condition", "f", "t.mu.Lock(); if t.gLocked() { t.mu.Unlock() } else if t.hLocked() { return }", ""},

		{"a loop that ends locked", "f", "for { t.mu.Lock(); if x { break }; t.mu.Unlock() }; t.gLocked()", ""},
		{"a loop that may end unlocked", "f", "for { t.mu.Lock(); if x { break }; t.mu.Unlock(); if y { break } }; t.gLocked()", "gLocked is called"},
		{"a loop that unlocks", "f", "t.mu.Lock(); for x { t.gLocked(); t.mu.Unlock() }", "gLocked is called"},
		{"a loop that goes on unlocked", "f", "t.mu.Lock(); for x { t.gLocked(); if y { t.mu.Unlock(); continue } }", "gLocked is called"},
		{"a loop that unlocks meanwhile", "f", "t.mu.Lock(); for range x { t.gLocked(); t.mu.Unlock(); t.mu.Lock() }; t.gLocked()", ""},
		{"an outer loop that ends locked", "f", "out: for { for range x { t.mu.Lock(); break out } }; t.gLocked()", ""},
		{"a loop in a switch", "f", "for { switch { case x: t.mu.Lock() ; default: continue }; t.gLocked(); t.mu.Unlock() }", ""},

		{"a switch, all of which lock", "f", "switch { case x: t.mu.Lock(); default: t.mu.Lock() }; t.gLocked()", ""},
		{"a switch without a default", "f", "switch { case x: t.mu.Lock() }; t.gLocked()", "gLocked is called"},
		{"a switch that breaks", "f", "switch { case x: if y { break }; t.mu.Lock(); default: t.mu.Lock() }; t.gLocked()", "gLocked is called"},
		{"a switch by type", "f", "t.mu.Lock(); switch x := t.gLocked().(type) { case int: t.hLocked(); case string: t.mu.Unlock() }", ""},
		{"a select", "f", "select { case <-x: t.mu.Lock(); case <-y: return }; t.gLocked()", ""},

		{"in a goroutine", "f", "t.mu.Lock(); go t.gLocked()", "gLocked is called"},
		{"in a goroutine's literal", "fLocked", "go func() { t.gLocked() }()", "gLocked is called"},
		{"an operand of a goroutine", "f", "t.mu.Lock(); go g(t.hLocked())", ""},
		{"deferred", "f", "t.mu.Lock(); defer t.mu.Unlock(); defer t.gLocked()", ""},
		{"in a deferred literal", "f", "t.mu.Lock(); defer t.mu.Unlock(); defer func() { t.gLocked() }()", "gLocked is called"},
		{"in a literal that locks", "fLocked", "t.later(func() { t.mu.Lock(); t.gLocked(); t.mu.Unlock() })", ""},
		{"in a literal for later", "fLocked", "t.later(func() { t.gLocked() })", "gLocked is called"},
		{"in a literal that is called", "fLocked", "func() { t.gLocked() }()", ""},
		{"in a literal for slices", "fLocked", "slices.SortFunc(x, func(a, b int) int { return t.gLocked(a, b) })", ""},
		{"in a literal for slices, without a lock", "f", "slices.SortFunc(x, func(a, b int) int { return t.gLocked(a, b) })", "gLocked is called"},
		{"in a literal for one that is locked", "f", "t.mu.Lock(); t.eachLocked(func() { t.gLocked() }); t.mu.Unlock()", ""},
		{"in a literal of that name", "f", "hLocked := func() { t.gLocked() }; t.mu.Lock(); hLocked(); t.mu.Unlock()", ""},
		{"in a literal of another name", "f", "h := func() { t.gLocked() }; t.mu.Lock(); h(); t.mu.Unlock()", "gLocked is called"},
		{"in a literal that is said to be", "f", "//archtest:locked Brought is called with it held.\nt.later(func() { t.gLocked() })", ""},
		{"in a literal that is said to be, without why", "f", "//archtest:locked\nt.later(func() { t.gLocked() })", "gLocked is called"},
		{"a break of a literal's loop", "f", "for { t.mu.Lock(); h(func() { for { break } }); t.gLocked(); t.mu.Unlock() }", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			source := "package p\nfunc (t *T) " + test.method + "() {\n" + test.body + "\n}\n"
			f := &file{name: "p/p.go", fset: token.NewFileSet()}
			var err error
			if f.syntax, err = parser.ParseFile(f.fset, f.name, source, parser.ParseComments|parser.SkipObjectResolution); err != nil {
				t.Fatal(err)
			}
			got := strings.Join(checkLocks(f), "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("it says %q, want %q", got, test.want)
			}
			if strings.Contains(got, "\n") {
				t.Errorf("one fault is told more than once:\n%s", got)
			}
		})
	}
}
