package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// faceFloor is the lowest floor of packages that people and agents use. Packages below do
// not know the words of a request.
const faceFloor = 4

// checkAdvice finds commands of mneme in the texts of packages below the faces: an error
// says there what is wrong, and cmd/mneme adds what to type.
func checkAdvice(files []*file) []string {
	pattern := "[`']mneme "
	if names := commandNames(files); len(names) > 0 {
		pattern += `|\bmneme (?:-[^ ]+ )*(?:` + strings.Join(names, "|") + `)\b`
	}
	named := regexp.MustCompile(pattern)
	var broken []string
	for _, f := range files {
		floor, known := floors[f.pkg()]
		if f.test || !known || floor >= faceFloor {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if found := named.FindString(text); err == nil && found != "" && !formatLine.MatchString(text) {
				broken = append(broken, fmt.Sprintf("%s:%d: a text names the command %q: advice that names one stands in cmd/mneme",
					f.name, f.fset.Position(literal.Pos()).Line, found))
			}
			return true
		})
	}
	return broken
}

// formatLine is the line with which a format begins, or what it begins with.
var formatLine = regexp.MustCompile(`^mneme \w+ (\d+\n?)?$`)

// commandNames returns the names of the commands of mneme: of the fields of the type cli
// that are marked so.
func commandNames(files []*file) []string {
	var names []string
	for _, f := range files {
		if f.name != grammarFile {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != "cli" {
				return true
			}
			grammar, ok := spec.Type.(*ast.StructType)
			if !ok {
				return false
			}
			for _, field := range grammar.Fields.List {
				if field.Tag != nil && strings.HasPrefix(field.Tag.Value, "`cmd:") && len(field.Names) == 1 {
					names = append(names, strings.ToLower(field.Names[0].Name))
				}
			}
			return false
		})
	}
	return names
}

// grammarFile is where the commands of mneme are declared.
const grammarFile = "cmd/mneme/cli.go"
