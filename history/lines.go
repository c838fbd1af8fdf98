package history

import (
	"bytes"
	"slices"
	"sort"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// splitLines returns the lines of a text, each with its end.
func splitLines(text []byte) []string {
	lines := make([]string, 0, bytes.Count(text, []byte("\n"))+1)
	for line := range strings.Lines(string(text)) {
		lines = append(lines, line)
	}
	return lines
}

// matchLines returns for each line of b the line of a that it was, or -1: the lines that
// stayed when b was made of a.
//
// The library finds all of them only where little differs, and otherwise treats the rest as
// replaced. Texts that differ much are cut at lines that occur once on each side.
func matchLines(a, b []string) []int {
	m := &lineMatch{a: a, b: b, was: make([]int, len(b))}
	for i := range m.was {
		m.was[i] = -1
	}
	m.match(0, len(a), 0, len(b))
	return m.was
}

type lineMatch struct {
	a, b []string
	was  []int // of each line of b
}

// exactLines is how many lines may differ for the library to find all others.
const exactLines = 100

// replacedLines counts the lines on both sides that differ.
func replacedLines(diffs []lcs.Diff) (n int) {
	for _, d := range diffs {
		n += d.End - d.Start + d.ReplEnd - d.ReplStart
	}
	return n
}

// match compares a[a0:a1] and b[b0:b1].
func (m *lineMatch) match(a0, a1, b0, b1 int) {
	for a0 < a1 && b0 < b1 && m.a[a0] == m.b[b0] {
		m.was[b0] = a0
		a0, b0 = a0+1, b0+1
	}
	for a0 < a1 && b0 < b1 && m.a[a1-1] == m.b[b1-1] {
		a1, b1 = a1-1, b1-1
		m.was[b1] = a1
	}
	if a0 == a1 || b0 == b1 {
		return
	}
	diffs := lcs.DiffLines(m.a[a0:a1], m.b[b0:b1])
	if replacedLines(diffs) > exactLines {
		if anchors := m.anchors(a0, a1, b0, b1); len(anchors) > 0 {
			for _, at := range anchors {
				m.match(a0, at[0], b0, at[1])
				a0, b0 = at[0], at[1] // the anchors are equal, and begin the next part
			}
			m.match(a0, a1, b0, b1)
			return
		}
	}
	atA, atB := 0, 0
	equal := func(until int) {
		for ; atA < until; atA, atB = atA+1, atB+1 {
			m.was[b0+atB] = a0 + atA
		}
	}
	for _, d := range diffs {
		equal(d.Start)
		atA, atB = d.End, d.ReplEnd
	}
	equal(a1 - a0)
}

// anchors returns lines that occur once in a[a0:a1] and once in b[b0:b1], as pairs of their
// numbers: the most that are in one order on both sides.
func (m *lineMatch) anchors(a0, a1, b0, b1 int) [][2]int {
	type places struct{ a, b, inA, inB int }
	lines := make(map[string]*places, a1-a0)
	for i, line := range m.a[a0:a1] {
		p := lines[line]
		if p == nil {
			p = &places{}
			lines[line] = p
		}
		p.a, p.inA = a0+i, p.inA+1
	}
	for i, line := range m.b[b0:b1] {
		if p := lines[line]; p != nil {
			p.b, p.inB = b0+i, p.inB+1
		}
	}
	type link struct {
		at     [2]int
		before *link
	}
	var ends []*link // of rows, by their length, each with the lowest last b
	for i, line := range m.a[a0:a1] {
		p := lines[line]
		if p.inA != 1 || p.inB != 1 {
			continue
		}
		n := sort.Search(len(ends), func(n int) bool { return ends[n].at[1] > p.b })
		l := &link{at: [2]int{a0 + i, p.b}}
		if n > 0 {
			l.before = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, nil)
		}
		ends[n] = l
	}
	if len(ends) == 0 {
		return nil
	}
	var row [][2]int
	for l := ends[len(ends)-1]; l != nil; l = l.before {
		row = append(row, l.at)
	}
	slices.Reverse(row)
	return row
}
