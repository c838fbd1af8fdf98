package term

import (
	"fmt"
	"io"
	"strings"

	"mneme/internal/quote"
)

// ListedError is an error about several things, each with its reason. A person gets a line
// for each.
type ListedError struct {
	error           // is true of all
	items  []string // the first things
	more   int      // the number of other things
	advice string   // says how to avoid the error
}

// listItems is the largest number of things that an error lists.
const listItems = 20

// NewListedError returns an error that is true of all items. advice may be empty.
func NewListedError(err error, items []string, advice string) *ListedError {
	n := min(len(items), listItems)
	return &ListedError{err, items[:n:n], len(items) - n, advice}
}

// lines are the listed things, and the number of others.
func (e *ListedError) lines() []string {
	if e.more == 0 {
		return e.items
	}
	return append(e.items[:len(e.items):len(e.items)], fmt.Sprintf("%d more", e.more))
}

// Error is the text in one line.
func (e *ListedError) Error() string {
	text := e.error.Error() + ": " + strings.Join(e.lines(), "; ")
	if e.advice != "" {
		text += "; " + e.advice
	}
	return text
}

func (e *ListedError) Unwrap() error { return e.error }

// Print writes the text for a person.
func (e *ListedError) Print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "mneme: %s:\n", quote.Line(e.error.Error()))
	for _, line := range e.lines() {
		_, _ = fmt.Fprintf(w, "  %s\n", quote.Line(line))
	}
	if e.advice != "" {
		_, _ = fmt.Fprintf(w, "%s\n", quote.Line(e.advice))
	}
}
