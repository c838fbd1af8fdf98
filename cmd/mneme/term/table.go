package term

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"mneme/internal/quote"
)

// Table is text in aligned columns. On a terminal its lines fit: columns are left out one
// by one, then cut. Otherwise nothing is left out.
type Table struct {
	Header []string
	Right  []string // headers of the columns that are aligned right
	Rows   [][]string
	Color  func(column, text string) string // of a cell; may be nil

	Spare  []string // headers of columns that are left out, in this order
	Shrink []string // headers of columns that are cut, in this order
	Paths  []string // headers of columns whose cells are cut at their beginning

	printed []int // the widths of the columns that PrintTable has printed; nil: none
}

// narrowest is the smallest width of a cut column, before the next column is cut.
const narrowest = 8

// Add appends a row.
func (t *Table) Add(cells ...string) {
	for i := range cells {
		cells[i] = quote.Cell(cells[i])
	}
	t.Rows = append(t.Rows, cells)
}

// PrintTable prints the rows of a table and removes them from it. A later call prints
// further rows below them.
func (c *Console) PrintTable(t *Table) {
	lines := append([][]string{t.Header}, t.Rows...)
	widths := t.fit(lines, c.columns())
	begun := t.printed != nil
	t.printed, t.Rows = widths, nil
	for n, row := range lines {
		if n == 0 && begun {
			continue
		}
		var line strings.Builder
		for i, cell := range row {
			if widths[i] < 0 {
				continue
			}
			cell = cut(cell, widths[i], slices.Contains(t.Paths, t.Header[i]))
			color := ""
			if n == 0 {
				color = Bold
			} else if t.Color != nil {
				color = t.Color(t.Header[i], cell)
			}
			pad := strings.Repeat(" ", widths[i]-TextWidth(cell))
			if slices.Contains(t.Right, t.Header[i]) {
				line.WriteString(pad + c.Paint(color, cell) + "  ")
			} else {
				line.WriteString(c.Paint(color, cell) + pad + "  ")
			}
		}
		c.Printf("%s\n", strings.TrimRight(line.String(), " "))
	}
}

// fit returns the width of each column in lines of a number of columns, -1 for a column
// that is left out. 0 columns are unbounded.
func (t *Table) fit(lines [][]string, columns int) []int {
	widths := make([]int, len(t.Header))
	copy(widths, t.printed)
	for _, row := range lines {
		for i, cell := range row {
			widths[i] = max(widths[i], TextWidth(cell))
		}
	}
	excess := func() int {
		sum := -2 // no gap after the last one
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
	for _, name := range t.Spare {
		if excess() > 0 {
			widths[slices.Index(t.Header, name)] = -1
		}
	}
	for _, name := range t.Shrink {
		i := slices.Index(t.Header, name)
		if over := excess(); over > 0 && widths[i] > narrowest {
			widths[i] = max(narrowest, widths[i]-over)
		}
	}
	return widths
}

// TextWidth is the number of columns that a text takes on a terminal.
func TextWidth(text string) int {
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

// cut shortens text to a number of columns. An ellipsis replaces its end, or its beginning.
func cut(text string, columns int, front bool) string {
	if TextWidth(text) <= columns {
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
