package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"mneme/internal/quote"
	"mneme/versionlog"
)

// sessionPrefix begins the ids of sessions that mneme names itself.
const sessionPrefix = "sesn_"

// The colours of a terminal.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
	reset  = "\x1b[0m"
)

func (a *app) paint(color, text string) string {
	if !a.color || color == "" || text == "" {
		return text
	}
	return color + text + reset
}

// printable is text without what could steer a terminal, or deceive its reader.
func printable(text string) string { return quote.Text(text) }

// printableLine is printable for a line of a text, whose tabs and end stay.
func printableLine(line string) string {
	text, end := strings.CutSuffix(line, "\n")
	parts := strings.Split(text, "\t")
	for i := range parts {
		parts[i] = printable(parts[i])
	}
	text = strings.Join(parts, "\t")
	if end {
		text += "\n"
	}
	return text
}

func localTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// actorName names an actor in little space: an id that says by itself that it
// is a session's stands alone.
func actorName(a versionlog.Actor) string {
	if a.Kind == versionlog.ActorSession && strings.HasPrefix(a.ID, sessionPrefix) {
		return a.ID
	}
	return a.String()
}

// memories counts memories in words.
func memories(n int) string {
	if n == 1 {
		return "1 memory"
	}
	return strconv.Itoa(n) + " memories"
}

// warnf tells the user of something that does not end the command, in one line.
func (a *app) warnf(format string, args ...any) {
	_, _ = fmt.Fprintf(a.err, "mneme: %s\n", quote.Line(fmt.Sprintf(format, args...)))
}

// printFields writes names and values below one another.
func (a *app) printFields(fields [][2]string) {
	width := 0
	for _, f := range fields {
		width = max(width, len(f[0]))
	}
	for _, f := range fields {
		a.printf("%s  %s\n", a.paint(bold, f[0])+strings.Repeat(" ", width-len(f[0])), quote.Cell(f[1]))
	}
}

// printDiff writes a unified diff: coloured and harmless on a terminal, byte
// for byte elsewhere.
func (a *app) printDiff(diff string) {
	if !a.terminal {
		a.printf("%s", diff)
		return
	}
	for line := range strings.Lines(diff) {
		color := ""
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
			color = bold
		case strings.HasPrefix(line, "-"):
			color = red
		case strings.HasPrefix(line, "+"):
			color = green
		case strings.HasPrefix(line, "@@"):
			color = cyan
		}
		a.printf("%s\n", a.paint(color, printableLine(strings.TrimSuffix(line, "\n"))))
	}
}
