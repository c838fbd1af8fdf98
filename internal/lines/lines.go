// Package lines reads lines of bounded length from others.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrTooLong says that a line has more bytes than it may have.
var ErrTooLong = errors.New("the line is too long")

// Reader reads lines. It is for one goroutine.
type Reader struct {
	in   *bufio.Reader
	most int
}

// NewReader returns a Reader of lines that have at most so many bytes, without their line breaks.
func NewReader(in io.Reader, most int) *Reader {
	return &Reader{in: bufio.NewReader(wiping{in}), most: most}
}

// wiping is a reader that overwrites what it is to read into before it waits, so that lines which were read are not
// in a buffer until the next ones come.
type wiping struct{ io.Reader }

// Read overwrites all of p.
func (r wiping) Read(p []byte) (int, error) {
	clear(p)
	return r.Reader.Read(p)
}

// Next returns the next line, without blanks and line breaks around it; the last one may have
// none. A line that is too long is read to its end, of which nothing is kept: ErrTooLong. Other
// errors are those of the input.
func (r *Reader) Next() ([]byte, error) {
	var line []byte
	isLong := false
	for {
		part, err := r.in.ReadSlice('\n')
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
			return nil, ErrTooLong
		}
		return bytes.TrimSpace(line), nil
	}
}
