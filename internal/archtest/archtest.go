// Package archtest checks what the compiler does not: which package may import
// which, that packages say what they are for, that files and functions stay
// small, that what needs a lock is called with one, and that the files of a package
// do not refer to each other in more circles than they did. It measures how a mount is
// built, too. Its tests run it over this module.
package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"slices"
)

const (
	maxFileLines     = 500
	maxFunctionLines = 80 // tests excepted: a table is no complexity
	maxMainLines     = 40
	mainFile         = "cmd/mneme/main.go"
)

// Check returns what the files of a module break, one line each.
func Check(files []*file) []string {
	var broken []string
	for _, f := range files {
		broken = append(broken, checkImports(f)...)
		broken = append(broken, checkSize(f)...)
		broken = append(broken, checkLocks(f)...)
	}
	broken = append(broken, checkAdvice(files)...)
	return append(broken, checkPackageComments(files)...)
}

func checkSize(f *file) []string {
	var broken []string
	limit := maxFileLines
	if f.name == mainFile {
		limit = maxMainLines
	}
	if f.lines > limit {
		broken = append(broken, fmt.Sprintf("%s: %d lines, at most %d", f.name, f.lines, limit))
	}
	if f.test {
		return broken
	}
	for _, decl := range f.syntax.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1
		if lines > maxFunctionLines {
			broken = append(broken, fmt.Sprintf("%s: func %s: %d lines, at most %d", f.name, fn.Name.Name, lines, maxFunctionLines))
		}
	}
	return broken
}

// checkPackageComments wants one comment per package, in a file that is not a
// test unless there are only tests.
func checkPackageComments(files []*file) []string {
	comments, hasCode := map[string]int{}, map[string]bool{}
	for _, f := range files {
		hasCode[f.pkg()] = hasCode[f.pkg()] || !f.test
		comments[f.pkg()] += 0
	}
	for _, f := range files {
		if f.syntax.Doc != nil && f.test != hasCode[f.pkg()] {
			comments[f.pkg()]++
		}
	}
	var broken []string
	for pkg, n := range comments {
		if n != 1 {
			broken = append(broken, fmt.Sprintf("%s: %d package comments, want 1", pkg, n))
		}
	}
	slices.SortFunc(broken, cmp.Compare[string])
	return broken
}
