package term

import (
	"fmt"
	"strings"
	"time"

	"mneme/internal/quote"
)

// The colours of a terminal.
const (
	Bold   = "\x1b[1m"
	Red    = "\x1b[31m"
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Cyan   = "\x1b[36m"
	Reset  = "\x1b[0m"
)

// Paint colours text, if standard output shows colours.
func (c *Console) Paint(color, text string) string {
	if !c.Color || color == "" || text == "" {
		return text
	}
	return color + text + Reset
}

// PrintableLine escapes control characters in a line of text, except for tabs and the
// line's end.
func PrintableLine(line string) string {
	text, end := strings.CutSuffix(line, "\n")
	parts := strings.Split(text, "\t")
	for i := range parts {
		parts[i] = quote.Text(parts[i])
	}
	text = strings.Join(parts, "\t")
	if end {
		text += "\n"
	}
	return text
}

// LocalTime is a time in the zone of the person, to the second.
func LocalTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// Warnf warns the user in one line. The command continues.
func (c *Console) Warnf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Err, "mneme: %s\n", quote.Line(fmt.Sprintf(format, args...)))
}

// PrintFields writes names and values, one pair a line.
func (c *Console) PrintFields(fields [][2]string) {
	width := 0
	for _, f := range fields {
		width = max(width, len(f[0]))
	}
	for _, f := range fields {
		c.Printf("%s  %s\n", c.Paint(Bold, f[0])+strings.Repeat(" ", width-len(f[0])), quote.Cell(f[1]))
	}
}

// PrintDiff writes a unified diff. On a terminal it is coloured and escaped, elsewhere it
// is written byte for byte.
func (c *Console) PrintDiff(diff string) {
	if !c.IsTerminal {
		c.Printf("%s", diff)
		return
	}
	for line := range strings.Lines(diff) {
		color := ""
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
			color = Bold
		case strings.HasPrefix(line, "-"):
			color = Red
		case strings.HasPrefix(line, "+"):
			color = Green
		case strings.HasPrefix(line, "@@"):
			color = Cyan
		}
		c.Printf("%s\n", c.Paint(color, PrintableLine(strings.TrimSuffix(line, "\n"))))
	}
}
