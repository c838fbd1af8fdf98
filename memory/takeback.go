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
	switch {
	case bytes.Equal(yours, to) || bytes.Equal(yours, head):
		return false
	case bytes.Equal(yours, from) && bytes.Equal(to, head):
		return true
	case !areComparable(from, to, head, yours):
		return false
	}
	t := newTakeback(from, to, head, yours)
	for _, mine := range lcs.DiffLines(t.theirs, t.mine) {
		for _, theirs := range t.changed {
			if theirs.ReplStart > mine.End || theirs.ReplEnd < mine.Start {
				continue
			}
			if t.isRestored(theirs, mine) || t.isTaken(theirs, mine) {
				return true
			}
		}
	}
	return false
}

// areComparable reports whether all texts can be compared line by line.
func areComparable(texts ...[]byte) bool {
	for _, text := range texts {
		if len(text) > MostCompared || !IsText(text) {
			return false
		}
	}
	return true
}

// takeback is a comparison by TakesBack: the lines of from, to and yours, and how often each text has
// each line.
type takeback struct {
	old, theirs, mine               []string
	inOld, inHead, inTheirs, inMine map[string]int
	changed                         []lcs.Diff     // from old to theirs
	spare                           map[string]int // how often a line may still go from where the other writer moved it to
}

func newTakeback(from, to, head, yours []byte) *takeback {
	t := &takeback{old: linesOf(from), theirs: linesOf(to), mine: linesOf(yours), inHead: count(linesOf(head)), spare: map[string]int{}}
	t.inOld, t.inTheirs, t.inMine = count(t.old), count(t.theirs), count(t.mine)
	t.changed = lcs.DiffLines(t.old, t.theirs)
	for _, c := range t.changed {
		for _, line := range t.theirs[c.ReplStart:c.ReplEnd] {
			t.spare[line]++
		}
	}
	for line := range t.spare {
		t.spare[line] -= t.inTheirs[line] - t.inOld[line]
	}
	return t
}

// isRestored reports whether a change of mine adds a line again where the other's change removed the
// line.
func (t *takeback) isRestored(theirs, mine lcs.Diff) bool {
	return slices.ContainsFunc(t.old[theirs.Start:theirs.End], func(line string) bool {
		more := t.inTheirs[line] < t.inOld[line] && t.inMine[line] > max(t.inTheirs[line], t.inHead[line])
		return more && !blank(line) && slices.Contains(t.mine[mine.ReplStart:mine.ReplEnd], line)
	})
}

// isTaken reports whether a change of mine removes a line that the other's change added, and did not
// only move.
func (t *takeback) isTaken(theirs, mine lcs.Diff) bool {
	start, end := max(theirs.ReplStart, mine.Start), min(theirs.ReplEnd, mine.End)
	if start >= end || apart(t.theirs, theirs, mine) {
		return false
	}
	for _, line := range t.theirs[start:end] {
		fewer := t.inTheirs[line] > t.inOld[line] && t.inMine[line] < min(t.inTheirs[line], t.inHead[line])
		if t.spare[line]--; t.spare[line] < 0 && fewer && !blank(line) {
			return true
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
