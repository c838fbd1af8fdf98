package strictjson

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"mneme/errkind"
	"mneme/internal/quote"
)

// Problem is what is wrong with a request.
type Problem int

// The problems. Those from Twice on are of one field.
const (
	NotJSON    Problem = iota + 1
	NotObject          // it is another value
	NotUnicode         // a byte is not UTF-8, or half a surrogate pair is escaped
	TooLong            // more bytes than Limits.Bytes
	TooDeep            // more objects and arrays in each other than Limits.Depth
	TooMany            // more values than Limits.Values
	Twice              // the field is there more than once in one object
	Unknown            // the field was not asked for
	Missing
	WrongType
	OutOfRange // a number that 64 bits do not hold
)

var problems = map[Problem]string{
	NotJSON: "it is not JSON", NotObject: "it is not an object", NotUnicode: "it is not Unicode",
	TooLong: "it is too long", TooDeep: "it is nested too deeply", TooMany: "it has too many values",
	Twice: "it is there twice", Unknown: "it is unknown", Missing: "it is missing", WrongType: "it has another type", OutOfRange: "it is out of range",
}

// Error says what is wrong. Its text holds no value. Its kind is errkind.Invalid.
type Error struct {
	Problem Problem
	Field   string // by its own name, without those of the objects around it
	Want    string // of WrongType and OutOfRange: "a string"
	Got     string // the type of the value
	Offset  int    // in bytes, of a problem that is not of one field
	Element int    // from 1, of the array in the outermost object in which Check met the problem; 0: in none
	Most    int    // of TooLong, TooDeep and TooMany: the limit
}

// Error says what is wrong, and with which field.
func (e *Error) Error() string {
	text := problems[e.Problem]
	switch {
	case e.Want != "":
		text = fmt.Sprintf("it must be %s, not %s", e.Want, e.Got)
	case e.Most > 0:
		text += fmt.Sprintf(": at most %d", e.Most)
	case e.Field == "":
		text += fmt.Sprintf(" at byte %d", e.Offset)
	}
	if e.Field != "" {
		return "field " + e.Shown() + ": " + text
	}
	return text
}

// Kind is errkind.Invalid.
func (e *Error) Kind() errkind.Kind { return errkind.Invalid }

// maxShown bounds the name of a field in a text, in bytes.
const maxShown = 64

// Shown returns the name of the field for a text: escaped, and not long.
func (e *Error) Shown() string {
	name, end := e.Field, ""
	if len(name) > maxShown {
		cut := maxShown
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name, end = name[:cut], "…"
	}
	return strings.ReplaceAll(quote.Text(name), "`", `\x60`) + end
}

// typeOf names the type of a JSON value.
func typeOf(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	if bytes.ContainsAny(raw, ".eE") {
		return "a number with a fraction or an exponent"
	}
	return "a number"
}
