package okf

import (
	"bytes"
	"slices"
)

// How deep front matter may nest, and how many marks of YAML one of its lines may have. The parser
// takes a time that grows with the square of either.
const (
	maxDepth = 32
	maxMarks = 64
)

// isDeep reports whether YAML may nest deeper than maxDepth, as far as that shows without parsing it:
// what is quoted counts, too.
func isDeep(matter []byte) bool {
	flow := 0
	var indents []int // of the lines above that are further left
	for line := range bytes.Lines(matter) {
		text := bytes.TrimLeft(line, " ")
		indent := len(line) - len(text)
		if len(bytes.TrimSpace(text)) > 0 {
			at, _ := slices.BinarySearch(indents, indent)
			indents = append(indents[:at], indent)
		}
		marks := 0
		for word := range bytes.FieldsSeq(text) {
			if bytes.ContainsAny(word[:1], "!&*") || len(word) == 1 && bytes.ContainsAny(word, "-?:") {
				marks++
			}
		}
		for _, c := range text {
			switch c {
			case '[', '{':
				flow++
			case ']', '}':
				flow = max(0, flow-1)
			}
			if flow > maxDepth {
				return true
			}
		}
		if marks > maxMarks || len(indents) > maxDepth {
			return true
		}
	}
	return false
}
