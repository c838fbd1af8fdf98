package main

import (
	"fmt"
	"io"
	"strings"

	"mneme/internal/quote"
)

// listedError is an error about several things, each of which has its reason. A person gets
// each on a line of its own.
type listedError struct {
	error           // which is true of all
	items  []string // the first of them
	more   int      // others
	advice string   // what would be right
}

// listItems bounds how many things an error lists.
const listItems = 20

func newListedError(err error, items []string, advice string) *listedError {
	n := min(len(items), listItems)
	return &listedError{err, items[:n:n], len(items) - n, advice}
}

// lines are the things it is about, and how many there are besides.
func (e *listedError) lines() []string {
	if e.more == 0 {
		return e.items
	}
	return append(e.items[:len(e.items):len(e.items)], fmt.Sprintf("%d more", e.more))
}

// Error is the text in one line.
func (e *listedError) Error() string {
	text := e.error.Error() + ": " + strings.Join(e.lines(), "; ")
	if e.advice != "" {
		text += "; " + e.advice
	}
	return text
}

func (e *listedError) Unwrap() error { return e.error }

// print writes the text for a person.
func (e *listedError) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "mneme: %s:\n", quote.Line(e.error.Error()))
	for _, line := range e.lines() {
		_, _ = fmt.Fprintf(w, "  %s\n", quote.Line(line))
	}
	if e.advice != "" {
		_, _ = fmt.Fprintf(w, "%s\n", quote.Line(e.advice))
	}
}
