package archtest

import (
	"go/ast"
	"go/types"
	"strings"
)

// locks are the locks held at a point of a function, as they are written there; nil: the
// point is never reached.
type locks map[string]bool

// callers stands for the locks that the caller of a function holds.
const callers = "the caller's"

func (l locks) with(lock string) locks {
	more := locks{lock: true}
	for held := range l {
		more[held] = true
	}
	return more
}

func (l locks) without(lock string) locks {
	fewer := locks{}
	for held := range l {
		fewer[held] = true
	}
	delete(fewer, lock)
	return fewer
}

// meet returns what is held where several ways meet: what is held on each of them.
func meet(ways ...locks) locks {
	var both locks
	for _, l := range ways {
		switch {
		case l == nil:
		case both == nil:
			both = l
		default:
			for held := range both {
				if !l[held] {
					both = both.without(held)
				}
			}
		}
	}
	return both
}

// startOf returns what is held where a function of that name begins.
func startOf(name string, otherwise locks) locks {
	if needsLock(name) {
		return locks{callers: true}
	}
	return otherwise
}

func needsLock(name string) bool { return strings.HasSuffix(name, "Locked") }

// lockCall returns the lock and the method of a call like mu.Lock().
func lockCall(n ast.Expr) (lock, method string) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) > 0 {
		return "", ""
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	switch sel.Sel.Name {
	case "Lock", "RLock", "Unlock", "RUnlock":
		return types.ExprString(sel.X), strings.TrimPrefix(sel.Sel.Name, "R")
	}
	return "", ""
}

// calledName returns the name of a called function, and the name before its dot, if any.
func calledName(call *ast.CallExpr) (name, before string) {
	fun := ast.Unparen(call.Fun)
	if index, ok := fun.(*ast.IndexExpr); ok { // of a generic function
		fun = index.X
	}
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun.Name, ""
	case *ast.SelectorExpr:
		if x, ok := fun.X.(*ast.Ident); ok {
			before = x.Name
		}
		return fun.Sel.Name, before
	}
	return "", ""
}
