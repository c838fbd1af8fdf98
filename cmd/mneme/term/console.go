// Package term writes to a person at a terminal or to a program. It holds streams, JSON,
// tables, colours, diffs, a pager, progress, confirmation, and values of flags that people
// write. It uses internal/quote and knows nothing of stores. Read console.go first.
package term

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"mneme/internal/quote"
)

// Console is the standard streams of a command, for a person at a terminal or for a program.
type Console struct {
	JSON bool // the reader is a program

	In            *os.File
	Out           *bufio.Writer
	Err           io.Writer
	Stdout        int  // its descriptor
	IsTerminal    bool // Out is a terminal
	ErrIsTerminal bool // Err is a terminal
	Color         bool
}

// NewConsole returns a console of three streams.
func NewConsole(stdin, stdout, stderr *os.File) *Console {
	terminal := term.IsTerminal(int(stdout.Fd()))
	return &Console{
		In: stdin, Out: bufio.NewWriter(stdout), Err: stderr,
		Stdout: int(stdout.Fd()), IsTerminal: terminal, ErrIsTerminal: term.IsTerminal(int(stderr.Fd())),
		Color: terminal && os.Getenv("NO_COLOR") == "",
	}
}

// PrintJSON writes a value to standard output in one line.
func (c *Console) PrintJSON(value any) error { return WriteJSON(c.Out, value) }

// WriteJSON writes a value in one line, with escapes for characters that a terminal or a
// reader could misread.
func WriteJSON(w io.Writer, value any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(quote.JSON(text.Bytes()))
	return err
}

// Printf writes to standard output. Its errors show when the output is flushed.
func (c *Console) Printf(format string, args ...any) { _, _ = fmt.Fprintf(c.Out, format, args...) }

// OutError is the error of the output until now. Long work ends with it.
func (c *Console) OutError() error {
	_, err := c.Out.Write(nil)
	return err
}

// Warn warns a person of something that was done nevertheless.
func (c *Console) Warn(line string) { _, _ = fmt.Fprintf(c.Err, "mneme: warning: %s\n", line) }
