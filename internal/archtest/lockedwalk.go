package archtest

import (
	"fmt"
	"go/ast"
	"slices"
)

// lockWalk goes through a function as the program does, with the locks held at each point.
type lockWalk struct {
	file   *file
	meant  map[int]bool // lines of literals that are called with a lock held
	own    string       // how the method writes its receiver's lock
	exits  []*exit      // of the statements around, the innermost last
	told   map[string]bool
	broken []string
}

func (w *lockWalk) tell(at ast.Node, format string, args ...any) {
	text := fmt.Sprintf("%s:%d: %s", w.file.name, w.file.fset.Position(at.Pos()).Line, fmt.Sprintf(format, args...))
	if !w.told[text] { // a loop is gone through twice
		w.told[text] = true
		w.broken = append(w.broken, text)
	}
}

// function goes through a body whose break and continue statements stay inside it.
func (w *lockWalk) function(body *ast.BlockStmt, held locks) {
	around := w.exits
	w.exits = nil
	w.statements(body.List, held)
	w.exits = around
}

// literal goes through a function literal that is called where held is.
func (w *lockWalk) literal(lit *ast.FuncLit, held locks) {
	if w.meant[w.file.fset.Position(lit.Pos()).Line] {
		held = locks{callers: true}
	}
	w.function(lit.Body, held)
}

// expression looks for calls below a node.
func (w *lockWalk) expression(n ast.Node, held locks) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			w.literal(n, locks{})
			return false
		case *ast.CallExpr:
			w.call(n, held)
			return false
		}
		return true
	})
}

// call goes through a call; its function literals may be called at once.
func (w *lockWalk) call(call *ast.CallExpr, held locks) {
	name, pkg := calledName(call)
	if needsLock(name) && len(held) == 0 {
		w.tell(call, "%s is called without a lock", name)
	}
	w.operand(call.Fun, held, true)
	now := needsLock(name) || slices.Contains([]string{"slices", "maps", "sort"}, pkg)
	for _, argument := range call.Args {
		w.operand(argument, held, now)
	}
}

// operand goes through a part of a call. A literal in its place holds what the call does
// if it is called now.
func (w *lockWalk) operand(n ast.Expr, held locks, now bool) {
	lit, ok := ast.Unparen(n).(*ast.FuncLit)
	switch {
	case !ok:
		w.expression(n, held)
	case now:
		w.literal(lit, held)
	default:
		w.literal(lit, locks{})
	}
}

// lock returns what is held after a statement that is a call of Lock or Unlock.
func (w *lockWalk) lock(at ast.Node, lock, method string, held locks) locks {
	switch {
	case method == "Lock" && held[callers] && lock == w.own:
		w.tell(at, "%s, which the caller holds, is locked", lock)
		fallthrough
	case method == "Lock":
		return held.with(lock)
	case held[lock]:
		return held.without(lock)
	case held[callers]:
		w.tell(at, "%s is unlocked, which the caller has locked", lock)
		return held.without(callers)
	}
	return held
}

// exit is a statement that break or continue leaves.
type exit struct {
	label     string
	loop      bool
	broken    []locks // what is held where break leaves it
	continued []locks
}

// statements goes through a list and returns what is held behind it.
func (w *lockWalk) statements(list []ast.Stmt, held locks) locks {
	for _, s := range list {
		held = w.statement(s, held, "")
	}
	return held
}

// statement returns the locks that are held after a statement with that label. Unreachable
// statements are skipped.
func (w *lockWalk) statement(s ast.Stmt, held locks, label string) locks {
	if s == nil || held == nil {
		return held
	}
	switch s := s.(type) {
	case *ast.ExprStmt:
		return w.effect(s, held)
	case *ast.DeferStmt:
		w.deferred(s.Call, held)
	case *ast.GoStmt:
		w.started(s.Call, held)
	case *ast.AssignStmt:
		w.assigned(s, held)
	case *ast.ReturnStmt:
		w.expression(s, held)
		return nil
	case *ast.BranchStmt:
		w.branch(s, held)
		return nil
	case *ast.LabeledStmt:
		return w.statement(s.Stmt, held, s.Label.Name)
	case *ast.BlockStmt:
		return w.statements(s.List, held)
	case *ast.IfStmt:
		held = w.statement(s.Init, held, "")
		w.expression(s.Cond, held)
		return meet(w.statements(s.Body.List, held), w.statement(s.Else, held, ""))
	case *ast.ForStmt:
		held = w.statement(s.Init, held, "")
		return w.loop(label, held, s.Cond, s.Body, s.Post)
	case *ast.RangeStmt:
		w.expression(s.X, held)
		return w.loop(label, held, ast.NewIdent("true"), s.Body, nil)
	case *ast.SwitchStmt:
		held = w.statement(s.Init, held, "")
		if s.Tag != nil {
			w.expression(s.Tag, held)
		}
		return w.clauses(label, held, s.Body)
	case *ast.TypeSwitchStmt:
		held = w.statement(s.Init, held, "")
		return w.clauses(label, w.statement(s.Assign, held, ""), s.Body)
	case *ast.SelectStmt:
		return w.clauses(label, held, s.Body)
	default:
		w.expression(s, held)
	}
	return held
}

// effect goes through an expression that is a statement: Lock and Unlock are, and what
// panics goes no further.
func (w *lockWalk) effect(s *ast.ExprStmt, held locks) locks {
	if lock, method := lockCall(s.X); lock != "" {
		return w.lock(s, lock, method, held)
	}
	w.expression(s, held)
	if call, ok := s.X.(*ast.CallExpr); ok {
		if name, before := calledName(call); name == "panic" && before == "" {
			return nil
		}
	}
	return held
}

// deferred goes through what runs at the end, when locks may be held no more: Unlock is
// the last that a function does.
func (w *lockWalk) deferred(call *ast.CallExpr, held locks) {
	if lock, method := lockCall(call); lock != "" {
		if method == "Unlock" {
			w.lock(call, lock, method, held)
		}
		return
	}
	if _, ok := call.Fun.(*ast.FuncLit); !ok {
		w.call(call, held)
		return
	}
	w.started(call, held)
}

// started goes through a call that is made where nothing is known to be held, but for its
// operands.
func (w *lockWalk) started(call *ast.CallExpr, held locks) {
	if name, _ := calledName(call); needsLock(name) {
		w.tell(call, "%s is called without a lock", name)
	}
	w.expression(call.Fun, held)
	for _, argument := range call.Args {
		w.expression(argument, held)
	}
}

// assigned goes through an assignment. A literal begins as the name says that it gets.
func (w *lockWalk) assigned(s *ast.AssignStmt, held locks) {
	for _, to := range s.Lhs {
		w.expression(to, held)
	}
	for i, value := range s.Rhs {
		lit, ok := value.(*ast.FuncLit)
		if !ok {
			w.expression(value, held)
			continue
		}
		name := ""
		switch to := s.Lhs[min(i, len(s.Lhs)-1)].(type) {
		case *ast.Ident:
			name = to.Name
		case *ast.SelectorExpr:
			name = to.Sel.Name
		}
		w.literal(lit, startOf(name, locks{}))
	}
}

// loop returns what is held behind a loop. It is gone through again with what is held
// when it comes round. Without a condition only break leaves it.
func (w *lockWalk) loop(label string, held locks, cond ast.Expr, body *ast.BlockStmt, post ast.Stmt) locks {
	var behind locks
	for range 2 {
		if cond != nil {
			w.expression(cond, held)
		}
		e := w.enter(label, true)
		end := w.statements(body.List, held)
		w.leave()
		end = w.statement(post, meet(append(e.continued, end)...), "")
		behind = meet(e.broken...)
		if cond != nil {
			behind = meet(append(e.broken, held, end)...)
		}
		held = meet(held, end)
	}
	return behind
}

// clauses returns what is held behind the clauses of a switch or select. A switch without
// a default may do nothing.
func (w *lockWalk) clauses(label string, held locks, body *ast.BlockStmt) locks {
	e := w.enter(label, false)
	whole := false
	var ends []locks
	for _, clause := range body.List {
		switch clause := clause.(type) {
		case *ast.CaseClause:
			whole = whole || clause.List == nil
			for _, value := range clause.List {
				w.expression(value, held)
			}
			ends = append(ends, w.statements(clause.Body, held))
		case *ast.CommClause:
			whole = true
			ends = append(ends, w.statements(clause.Body, w.statement(clause.Comm, held, "")))
		}
	}
	w.leave()
	if !whole {
		ends = append(ends, held)
	}
	return meet(append(ends, e.broken...)...)
}

func (w *lockWalk) enter(label string, loop bool) *exit {
	e := &exit{label: label, loop: loop}
	w.exits = append(w.exits, e)
	return e
}

func (w *lockWalk) leave() { w.exits = w.exits[:len(w.exits)-1] }

// branch notes the locks that are held where break or continue leaves. It does not follow
// goto and fallthrough: after a fallthrough it is as after a break.
func (w *lockWalk) branch(s *ast.BranchStmt, held locks) {
	for i := len(w.exits) - 1; i >= 0; i-- {
		e := w.exits[i]
		continues := s.Tok.String() == "continue"
		if s.Label != nil && s.Label.Name != e.label || s.Label == nil && continues && !e.loop {
			continue
		}
		if continues {
			e.continued = append(e.continued, held)
		} else {
			e.broken = append(e.broken, held)
		}
		return
	}
}
