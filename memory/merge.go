package memory

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// Merge merges the changes that two writers made to base, line by line. ok is false when
// they changed the same lines, or adjacent lines: then a person must resolve the conflict.
// A change that both made is taken once.
func Merge(base, theirs, yours []byte) (merged []byte, ok bool) {
	edits := lineEdits(base, theirs)
	for _, e := range lineEdits(base, yours) {
		if !slices.Contains(edits, e) {
			edits = append(edits, e)
		}
	}
	slices.SortStableFunc(edits, func(a, b udiff.Edit) int { return a.Start - b.Start })
	var out bytes.Buffer
	at := 0
	for i, e := range edits {
		if i > 0 && e.Start <= edits[i-1].End {
			return nil, false
		}
		out.Write(base[at:e.Start])
		out.WriteString(e.New)
		at = e.End
	}
	out.Write(base[at:])
	return out.Bytes(), true
}

// lineEdits returns the edits that turn a into b, in whole lines, in order. Edits that
// touch are one.
func lineEdits(a, b []byte) []udiff.Edit {
	var edits []udiff.Edit
	for _, e := range udiff.Lines(string(a), string(b)) {
		if n := len(edits); n > 0 && edits[n-1].End == e.Start {
			edits[n-1].End = e.End
			edits[n-1].New += e.New
			continue
		}
		edits = append(edits, e)
	}
	return edits
}

// IsText reports whether a content is UTF-8 without zero bytes, which can be shown and merged by
// lines.
func IsText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }
