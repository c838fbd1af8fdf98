package memory

import (
	"bytes"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/aymanbagabas/go-udiff/lcs"
)

// MostCompared is the largest text, in bytes, that TakesBack compares line by
// line.
const MostCompared = 256 << 10

// TakesBack reports whether yours, written over head, takes back a change that another
// writer has made from one text to another, as a text based on the earlier one does: lines
// that the other added are gone, or lines that it removed are back. An edit that keeps the
// other's lines never does, wherever else it changes the text.
//
// A line that the other added is gone when three things hold. The difference from to to
// yours removes it where the other had put it, and cannot be expressed so that it removes
// something else, as among equal lines. The other did not only move it. And yours has fewer
// of it than both to and head: yours cannot take back a line that head no longer has. The
// same holds for a line that is back: it is put where the other had removed it, and yours
// has more of it. So the order of lines does not matter, nor do blank lines and line ends.
//
// If the content is not text, or has more than MostCompared bytes, only the very bytes of
// from, written over to, take anything back. Zeros at the end are ignored.
func TakesBack(from, to, head, yours []byte) bool {
	from, to, head, yours = Unpadded(from), Unpadded(to), Unpadded(head), Unpadded(yours)
	if bytes.Equal(yours, to) || bytes.Equal(yours, head) {
		return false
	}
	if bytes.Equal(yours, from) && bytes.Equal(to, head) {
		return true
	}
	for _, text := range [][]byte{from, to, head, yours} {
		if len(text) > MostCompared || !IsText(text) {
			return false
		}
	}
	old, theirs, mine := linesOf(from), linesOf(to), linesOf(yours)
	inOld, inHead, inTheirs, inMine := count(old), count(linesOf(head)), count(theirs), count(mine)
	fewer := func(line string) bool {
		return inTheirs[line] > inOld[line] && inMine[line] < min(inTheirs[line], inHead[line])
	}
	more := func(line string) bool {
		return inTheirs[line] < inOld[line] && inMine[line] > max(inTheirs[line], inHead[line])
	}

	changed := lcs.DiffLines(old, theirs)
	spare := map[string]int{} // how often a line may go from where the other put it: it was moved there
	for _, c := range changed {
		for _, line := range theirs[c.ReplStart:c.ReplEnd] {
			spare[line]++
		}
	}
	for line := range spare {
		spare[line] -= inTheirs[line] - inOld[line]
	}
	for _, d := range lcs.DiffLines(theirs, mine) {
		for _, c := range changed {
			if c.ReplStart > d.End || c.ReplEnd < d.Start {
				continue
			}
			back := func(line string) bool {
				return !blank(line) && more(line) && slices.Contains(mine[d.ReplStart:d.ReplEnd], line)
			}
			if slices.ContainsFunc(old[c.Start:c.End], back) {
				return true
			}
			start, end := max(c.ReplStart, d.Start), min(c.ReplEnd, d.End)
			if start >= end || apart(theirs, c, d) {
				continue
			}
			for _, line := range theirs[start:end] {
				if spare[line]--; spare[line] < 0 && !blank(line) && fewer(line) {
					return true
				}
			}
		}
	}
	return false
}

// Unpadded returns a text without zeros at its end: a program that maps a file makes it long enough
// first.
func Unpadded(text []byte) []byte { return bytes.TrimRight(text, "\x00") }

// MadeOf reports whether yours is an edit of from that leaves alone some of the lines that
// another writer has changed.
func MadeOf(from, to, yours []byte) bool {
	from = Unpadded(from)
	own := lineEdits(from, Unpadded(yours))
	return slices.ContainsFunc(lineEdits(from, Unpadded(to)), func(theirs udiff.Edit) bool {
		return !slices.ContainsFunc(own, func(mine udiff.Edit) bool {
			if theirs.Start == theirs.End { // at a place that both may have meant
				return mine.Start <= theirs.End && theirs.Start <= mine.End
			}
			return mine.Start < theirs.End && theirs.Start < mine.End
		})
	})
}

// apart reports whether the lines that c has added and those that d deletes need
// not be the same: a difference that adds or deletes the lines 2 and 3 of a b a b
// may as well mean 1 and 2.
func apart(lines []string, c, d lcs.Diff) bool {
	up, down := slides(lines, c.ReplStart, c.ReplEnd)
	dUp, dDown := slides(lines, d.Start, d.End)
	return c.ReplEnd-up <= d.Start+dDown || d.End-dUp <= c.ReplStart+down
}

// slides returns how far some lines can be taken for the same further up and down.
func slides(lines []string, start, end int) (up, down int) {
	for start-up > 0 && lines[start-up-1] == lines[end-up-1] {
		up++
	}
	for end+down < len(lines) && lines[start+down] == lines[end+down] {
		down++
	}
	return up, down
}

// linesOf returns the lines of a text without their ends.
func linesOf(text []byte) []string {
	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return lines
}

func blank(line string) bool { return strings.TrimSpace(line) == "" }

func count(lines []string) map[string]int {
	n := make(map[string]int, len(lines))
	for _, line := range lines {
		n[line]++
	}
	return n
}

// CutAt reports whether yours is an edit of the first size bytes of text, with
// what came after them dropped: what a program writes that took a text for
// shorter than it is. An edit of the whole text is that only when it ends it at
// the very byte.
func CutAt(text, yours []byte, size int64) bool {
	if size <= 0 || size >= int64(len(text)) || len(text) > MostCompared || len(yours) > MostCompared {
		return false
	}
	rest := text[:size]
	part := string(rest[bytes.LastIndexByte(rest, '\n')+1:]) // of a line, or nothing
	edits := lineEdits(text, yours)
	if len(edits) == 0 {
		return false
	}
	last := edits[len(edits)-1]
	before, ok := strings.CutSuffix(last.New, part)
	switch {
	case !ok || last.End != len(text):
		return false
	case part == "":
		return last.Start == len(rest) && last.New == ""
	}
	return last.Start <= len(rest)-len(part) && (before == "" || strings.HasSuffix(before, "\n"))
}
