package history

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"mneme/internal/quote"
	"mneme/memory"
)

// Side is one side of a patch: a file, its text, and which version that is. Without a path
// there is no file.
type Side struct {
	Path  string // of the store
	Label string // for people
	Text  []byte
}

// Patch returns what makes b of a, in the form of git that `git apply` and `patch -p1` take,
// with three lines of context; "" where nothing differs. Renamed says that a file was renamed,
// rather than that two are compared. Of content that is not text it says only that it differs, in
// a line that both pass over: they would refuse the whole patch for a header without a hunk.
func Patch(a, b Side, renamed bool) string {
	same := bytes.Equal(a.Text, b.Text)
	if same && (a.Path == b.Path || a.Path != "" && b.Path != "" && !renamed) {
		return ""
	}
	nameA, nameB := a.Path, b.Path
	if nameA == "" {
		nameA = nameB
	}
	if nameB == "" {
		nameB = nameA
	}
	if !same && (!memory.IsText(a.Text) || !memory.IsText(b.Text)) {
		return fmt.Sprintf("Binary files %s and %s differ\n", a.name("a"), b.name("b"))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "diff --git %s %s\n", quoteGit("a"+nameA), quoteGit("b"+nameB))
	switch {
	case a.Path == "":
		out.WriteString("new file mode 100644\n")
	case b.Path == "":
		out.WriteString("deleted file mode 100644\n")
	case renamed && nameA != nameB:
		if same {
			out.WriteString("similarity index 100%\n")
		}
		fmt.Fprintf(&out, "rename from %s\nrename to %s\n", quoteGit(nameA[1:]), quoteGit(nameB[1:]))
	}
	switch {
	case !same:
		out.WriteString(udiff.Unified(a.header("a"), b.header("b"), string(a.Text), string(b.Text)))
	case a.Path == "":
		out.WriteString("index 0000000.." + emptyBlob + "\n") // patch requires the hash of an empty file
	case b.Path == "":
		out.WriteString("index " + emptyBlob + "..0000000\n")
	}
	return out.String()
}

// name returns the quoted name of a side, with the prefix by which a patch tells the sides apart.
func (s Side) name(prefix string) string {
	if s.Path == "" {
		return noFile
	}
	return quoteGit(prefix + s.Path)
}

// header returns the name and the label of a side, as they are above the hunks.
func (s Side) header(prefix string) string {
	if s.Path == "" {
		return noFile
	}
	return s.name(prefix) + "\t" + s.Label
}

// noFile is what a patch calls the side on which there is no file.
const noFile = "/dev/null"

// emptyBlob is the hash that git has for no bytes, cut short.
const emptyBlob = "e69de29"

// quoteGit returns a name in the quotes of git, where it needs them.
func quoteGit(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == 0x7f }) {
		return name
	}
	return quote.Git(name)
}
