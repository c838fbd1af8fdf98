package main

import (
	"fmt"
	"strings"
)

// linesJSON counts the lines that a version added and removed; both are missing of what is no
// text.
type linesJSON struct {
	Added   *int `json:"added"`
	Removed *int `json:"removed"`
}

func newLinesJSON(diff string) *linesJSON {
	added, removed, ok := countLines(diff)
	if !ok {
		return &linesJSON{}
	}
	return &linesJSON{&added, &removed}
}

// diffStat says how many lines a diff adds and removes.
func diffStat(diff string) string {
	added, removed, ok := countLines(diff)
	if !ok {
		return "binary"
	}
	return fmt.Sprintf("+%d -%d", added, removed)
}

// countLines counts the lines that a diff of one memory adds and removes; false where it tells
// of no lines, though contents differ.
func countLines(diff string) (added, removed int, ok bool) {
	inHunk := false
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "@@"):
			inHunk = true
		case inHunk && strings.HasPrefix(line, "+"):
			added++
		case inHunk && strings.HasPrefix(line, "-"):
			removed++
		case !inHunk && strings.HasPrefix(line, "Binary files "):
			return 0, 0, false
		}
	}
	return added, removed, true
}
