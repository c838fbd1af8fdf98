package tools

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// explainPattern says why a text is no regular expression, and where. It shows nothing of the
// text, which may be content.
func explainPattern(text string, err error) error {
	const no = "the query is no regular expression as RE2 has them"
	var wrong *syntax.Error
	if !errors.As(err, &wrong) {
		return errors.New(no)
	}
	_, again := syntax.Parse(text, syntax.Perl) // without the flags before it
	if at := faultIn(text, again); at >= 0 {
		return fmt.Errorf("%s: %v at character %d", no, wrong.Code, utf8.RuneCountInString(text[:at])+1)
	}
	return fmt.Errorf("%s: %v", no, wrong.Code)
}

// mostTried bounds how many places of a pattern are tried.
const mostTried = 50

// faultIn returns where the fault of a pattern begins, in bytes, or -1 if it is of the whole.
func faultIn(pattern string, err error) int {
	var wrong *syntax.Error
	if !errors.As(err, &wrong) {
		return -1
	}
	part, is := wrong.Expr, func(end int) bool { // the pattern has the same fault if it ends there
		var same *syntax.Error
		_, err := syntax.Parse(pattern[:end], syntax.Perl)
		return errors.As(err, &same) && same.Code == wrong.Code && same.Expr == wrong.Expr
	}
	last := wrong.Code == syntax.ErrInvalidPerlOp // an earlier one may be none, if it goes on
	switch wrong.Code {
	case syntax.ErrMissingParen: // of a group before which all is in order, the last
		part, last, is = "(", true, func(end int) bool {
			_, err := syntax.Parse(pattern[:end-1], syntax.Perl)
			return err == nil
		}
	case syntax.ErrUnexpectedParen:
		part, is = ")", func(end int) bool {
			var same *syntax.Error
			_, err := syntax.Parse(pattern[:end], syntax.Perl)
			return errors.As(err, &same) && same.Code == wrong.Code
		}
	case syntax.ErrLarge, syntax.ErrNestingDepth:
		return -1
	}
	found := -1
	for at, tried := 0, 0; part != ""; tried++ {
		i := strings.Index(pattern[at:], part)
		if i < 0 {
			break
		}
		if tried == mostTried {
			return -1
		}
		if at += i; is(at + len(part)) {
			if found = at; !last {
				break
			}
		}
		at++
	}
	return found
}
