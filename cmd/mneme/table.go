package main

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"mneme/internal/quote"
)

// table is text in aligned columns. On a terminal its lines fit: what does not
// is left out column by column, and then cut. Elsewhere nothing is.
type table struct {
	header []string
	right  []string // headers of the columns to align right
	rows   [][]string
	color  func(column, text string) string // of a cell; nil is none

	spare  []string // headers of columns to leave out, the first one first
	shrink []string // headers of columns to cut, the first one first
	paths  []string // headers of columns whose cells are cut in front

	printed []int // how wide the columns of rows were that printTable has printed before; nil: none
}

// narrowest is how far a column is cut before the next one is.
const narrowest = 8

func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = quote.Cell(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// printTable prints the rows of a table, and lets go of them. Those that are added later are
// printed as below the others.
func (a *app) printTable(t *table) {
	lines := append([][]string{t.header}, t.rows...)
	widths := t.fit(lines, a.columns())
	begun := t.printed != nil
	t.printed, t.rows = widths, nil
	for n, row := range lines {
		if n == 0 && begun {
			continue
		}
		var line strings.Builder
		for i, cell := range row {
			if widths[i] < 0 {
				continue
			}
			cell = cut(cell, widths[i], slices.Contains(t.paths, t.header[i]))
			color := ""
			if n == 0 {
				color = bold
			} else if t.color != nil {
				color = t.color(t.header[i], cell)
			}
			pad := strings.Repeat(" ", widths[i]-textWidth(cell))
			if slices.Contains(t.right, t.header[i]) {
				line.WriteString(pad + a.paint(color, cell) + "  ")
			} else {
				line.WriteString(a.paint(color, cell) + pad + "  ")
			}
		}
		a.printf("%s\n", strings.TrimRight(line.String(), " "))
	}
}

// fit returns how wide each column may be in lines of a number of columns, -1
// where it is left out; 0 columns are unbounded.
func (t *table) fit(lines [][]string, columns int) []int {
	widths := make([]int, len(t.header))
	copy(widths, t.printed)
	for _, row := range lines {
		for i, cell := range row {
			widths[i] = max(widths[i], textWidth(cell))
		}
	}
	excess := func() int {
		sum := -2 // no gap behind the last one
		for _, w := range widths {
			if w >= 0 {
				sum += w + 2
			}
		}
		return sum - columns
	}
	for i, width := range t.printed {
		if width < 0 {
			widths[i] = width
		}
	}
	if columns == 0 {
		return widths
	}
	for _, name := range t.spare {
		if excess() > 0 {
			widths[slices.Index(t.header, name)] = -1
		}
	}
	for _, name := range t.shrink {
		i := slices.Index(t.header, name)
		if over := excess(); over > 0 && widths[i] > narrowest {
			widths[i] = max(narrowest, widths[i]-over)
		}
	}
	return widths
}

// textWidth is how many columns of a terminal text takes.
func textWidth(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if r < 0x80 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cut shortens text to a number of columns; an ellipsis stands for its end, or
// for its beginning.
func cut(text string, columns int, front bool) string {
	if textWidth(text) <= columns {
		return text
	}
	runes := []rune(text)
	if front {
		slices.Reverse(runes)
	}
	kept, n := 0, 1
	for kept < len(runes) && n+runeWidth(runes[kept]) <= columns {
		n += runeWidth(runes[kept])
		kept++
	}
	runes = runes[:kept]
	if !front {
		return string(runes) + "…"
	}
	slices.Reverse(runes)
	return "…" + string(runes)
}
