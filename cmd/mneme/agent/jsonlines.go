package agent

import (
	"errors"
	"fmt"
	"io"

	"mneme/cmd/mneme/app"
	"mneme/internal/lines"
)

// serveLines answers each line of in that is not empty, in order, until in ends. It reads a
// line after it has written the answer to the line before, so that a reader that stops
// costs nothing. For a line of more than most bytes, it calls answer with nil.
func serveLines(in io.Reader, most int, answer func(line []byte) any, reply func(any) error) error {
	requests := lines.NewReader(in, most)
	for {
		line, err := requests.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, lines.ErrTooLong):
			err = reply(answer(nil))
		case err != nil:
			return fmt.Errorf("read standard input: %w", err)
		case len(line) > 0:
			err = reply(answer(line))
		}
		if err != nil {
			return fmt.Errorf("write standard output: %w", err)
		}
	}
}

// reply returns a function that writes an answer and overwrites its buffer.
func reply(a *app.App) func(answer any) error {
	return func(answer any) error {
		err := errors.Join(a.PrintJSON(answer), a.Out.Flush())
		buffer := a.Out.AvailableBuffer()
		clear(buffer[:cap(buffer)])
		return err
	}
}
