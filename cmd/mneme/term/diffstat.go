package term

import (
	"fmt"
	"strings"
)

// Lines counts the lines that a version added and removed. Both are missing if a content is
// no text.
type Lines struct {
	Added   *int `json:"added"`
	Removed *int `json:"removed"`
}

// NewLines counts the lines of a diff.
func NewLines(diff string) *Lines {
	added, removed, ok := CountLines(diff)
	if !ok {
		return &Lines{}
	}
	return &Lines{&added, &removed}
}

// DiffStat is the number of lines that a diff adds and removes, in words.
func DiffStat(diff string) string {
	added, removed, ok := CountLines(diff)
	if !ok {
		return "binary"
	}
	return fmt.Sprintf("+%d -%d", added, removed)
}

// CountLines counts the lines that a diff of one memory adds and removes. ok is false for
// contents that are no text.
func CountLines(diff string) (added, removed int, ok bool) {
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
