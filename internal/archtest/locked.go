package archtest

import (
	"go/ast"
	"regexp"
	"strings"
)

// callerHolds is a comment that says that a lock is held by the caller, or that none is.
var callerHolds = regexp.MustCompile(`(?i)\bcallers?\s+(?:(?:who|that|must)\s+)?holds?\s+(\w+)|\bcalled\s+with\s+\S*mu\s+held\b`)

// callersHold returns the places of a text that say that a lock is held by the caller.
func callersHold(text string) []string {
	var found []string
	for _, match := range callerHolds.FindAllStringSubmatch(text, -1) {
		if match[1] != "no" && match[1] != "none" {
			found = append(found, strings.Join(strings.Fields(match[0]), " "))
		}
	}
	return found
}

// checkLocks checks the functions whose names end in Locked, which are called with a
// lock held:
//
//  1. Only such a function calls one, or code between a Lock or RLock and its Unlock. A deferred
//     Unlock is at the end of the function. A function that go starts holds nothing.
//  2. A function literal holds the locks that are held at its place if it is called there, or
//     passed to a function of package slices, maps or sort or to one whose name ends in Locked.
//     One that a variable whose name ends in Locked is set to, and one below the comment
//     "//archtest:locked REASON", is called with a lock held. Any other begins without.
//  3. Such a function does not release a lock that it has not taken, nor take the lock
//     mu of its own receiver.
//  4. No comment says that a lock is held by the caller.
//
// It sees one function after another, and names only: not which lock is meant, nor that a
// function is passed on as a value. Locks are told apart by how they are written. So a
// package has one lock that the suffix is about, or one for each type.
func checkLocks(f *file) []string {
	if f.test {
		return nil
	}
	w := &lockWalk{file: f, told: map[string]bool{}, meant: linesUnderLock(f)}
	for _, decl := range f.syntax.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			w.expression(decl, locks{})
			continue
		}
		if fn.Body != nil {
			w.own = receiverLock(fn)
			w.function(fn.Body, startOf(fn.Name.Name, locks{}))
		}
	}
	for _, group := range f.syntax.Comments {
		for _, said := range callersHold(group.Text()) {
			w.tell(group, "a comment says %q: end the function's name in Locked instead", said)
		}
	}
	return w.broken
}

// receiverLock returns how a method writes the lock mu of its receiver; "" is none.
func receiverLock(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List[0].Names) == 0 {
		return ""
	}
	return fn.Recv.List[0].Names[0].Name + ".mu"
}

// linesUnderLock returns the lines below comments that say that what follows is called with
// a lock held.
func linesUnderLock(f *file) map[int]bool {
	lines := map[int]bool{}
	for _, group := range f.syntax.Comments {
		for _, comment := range group.List {
			if why, ok := strings.CutPrefix(comment.Text, "//archtest:locked "); ok && strings.TrimSpace(why) != "" {
				lines[f.fset.Position(group.End()).Line+1] = true
			}
		}
	}
	return lines
}
