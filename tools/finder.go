package tools

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// finder finds matches in a text: it returns the place of the first that is not before a
// place, the beginning of the text or of a line, or -1.
type finder func(from int) int

func literally(data, literal []byte) finder {
	return func(from int) int {
		if i := bytes.Index(data[from:], literal); i >= 0 {
			return from + i
		}
		return -1
	}
}

func isASCII(data []byte) bool {
	for _, b := range data {
		if b >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// expression is a regular expression.
type expression struct {
	first *regexp.Regexp
	later *regexp.Regexp // behind the beginning of a text, where \A matches nothing
	size  int            // instructions: each may be followed at each character
}

func newExpression(pattern string) (*expression, error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	e := &expression{size: len(program.Inst)}
	if e.first, err = regexp.Compile(pattern); err != nil {
		return nil, err
	}
	if e.later = e.first; dropBegin(parsed) {
		e.later, err = regexp.Compile(parsed.String())
	}
	return e, err
}

// dropBegin has the beginning of a text match nothing, and reports whether it was asked for.
func dropBegin(re *syntax.Regexp) (found bool) {
	if re.Op == syntax.OpBeginText {
		re.Op, found = syntax.OpNoMatch, true
	}
	for _, sub := range re.Sub {
		found = dropBegin(sub) || found
	}
	return found
}

// maxSteps is how many instructions for how many bytes are followed without a look at the
// deadline; more than a tenth of a second they do not take.
const maxSteps = 1 << 23

// find returns the place of the first match that is not before a place, or -1.
func (e *expression) find(ctx context.Context, data []byte, from int) int {
	re, rest := e.first, data[from:]
	if from > 0 {
		re = e.later
	}
	var place []int
	if len(rest) <= maxSteps/e.size {
		place = re.FindIndex(rest)
	} else {
		place = re.FindReaderIndex(&endingText{ctx: ctx, rest: rest})
	}
	if place == nil {
		return -1
	}
	return from + place[0]
}

// endingText is the characters of a text, which is at its end when ctx is.
type endingText struct {
	ctx  context.Context
	rest []byte
	read int // characters
}

func (t *endingText) ReadRune() (r rune, size int, err error) {
	const seldom = 16 // to look at ctx takes as long as a few characters
	if t.read++; len(t.rest) == 0 || t.read%seldom == 0 && t.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	r, size = utf8.DecodeRune(t.rest)
	t.rest = t.rest[size:]
	return r, size, nil
}
