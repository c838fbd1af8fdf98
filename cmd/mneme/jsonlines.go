package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// serveLines answers each line of in that is not empty, in order, until in ends. The next line
// is read when the answer to the one before is written, so that a reader that stops costs
// nothing. A line of more than most bytes is nil for answer.
func serveLines(in io.Reader, most int, answer func(line []byte) any, reply func(any) error) error {
	lines := &lineReader{in: bufio.NewReader(in), most: most}
	for {
		line, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errLongLine):
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

// lineReader reads lines of bounded length.
type lineReader struct {
	in   *bufio.Reader
	most int
}

var errLongLine = errors.New("the line is too long")

// next returns a line without its line break. A line that is too long is read to its end:
// errLongLine.
func (r *lineReader) next() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.in.ReadSlice('\n')
		if long = long || len(line)+len(part) > r.most+1; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(line) == 0 && !long):
			return nil, err
		case long:
			return nil, errLongLine
		}
		return trimBreak(line), nil
	}
}

func trimBreak(line []byte) []byte {
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line
}
