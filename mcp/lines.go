package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lineReader reads lines of bounded length. Its methods but Close are for one goroutine.
type lineReader struct {
	in   io.ReadCloser
	buf  *bufio.Reader
	most int // bytes of a line
}

var errLongLine = errors.New("the line is too long")

func newLineReader(in io.ReadCloser, most int) *lineReader {
	return &lineReader{in: in, buf: bufio.NewReader(in), most: most}
}

// next returns a line without blanks around it; the last one may have no line break. A line
// that is too long is read to its end: errLongLine.
func (r *lineReader) next() ([]byte, error) {
	var line []byte
	isLong := false
	for {
		part, err := r.buf.ReadSlice('\n')
		if isLong = isLong || len(line)+len(part) > r.most+1; isLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(line) == 0 && !isLong):
			return nil, err
		case isLong:
			return nil, errLongLine
		}
		return bytes.TrimSpace(line), nil
	}
}

// Close ends next, if a Read of the input ends when it is closed.
func (r *lineReader) Close() error { return r.in.Close() }
