package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits bound what is read; nil and a zero field are the default.
type Limits struct {
	Bytes  int // of the whole; 4 MiB
	Depth  int // of objects and arrays in each other; 16
	Values int // values altogether; 10,000
	// Plain has names of fields be of a-z, 0-9 and _ only; another is Unknown. Package json would take
	// one that differs in case for the same field.
	Plain bool
}

func (l *Limits) orDefault() Limits {
	own := Limits{}
	if l != nil {
		own = *l
	}
	for _, one := range []struct {
		value    *int
		fallback int
	}{{&own.Bytes, 4 << 20}, {&own.Depth, 16}, {&own.Values, 10_000}} {
		if *one.value == 0 {
			*one.value = one.fallback
		}
	}
	return own
}

// Check reads data once, and says whether it is one JSON value within the limits: nil or
// an *Error. It takes time and memory in proportion to the length of data.
func Check(data []byte, l *Limits) error {
	_, err := scan(data, l, nil)
	return err
}

// scanner reads one JSON value from its beginning to its end. It keeps the objects and
// arrays around the place where it is in a slice of its own, so that depth costs no stack.
type scanner struct {
	data   []byte
	at     int
	limits Limits
	values int
	open   []opened

	fields map[string]json.RawMessage // of the outermost object; nil: not asked for
	field  string                     // of the outermost object, in which the scanner is
	start  int                        // of that field's value
}

// opened is an object or array that has not ended.
type opened struct {
	end      byte            // } or ]
	keys     map[string]bool // of an object
	elements int             // of an array, that have begun
}

const blank = " \t\r\n"

// scan checks data and, if it is an object, puts its fields into fields, which may be nil.
func scan(data []byte, l *Limits, fields map[string]json.RawMessage) (isObject bool, err error) {
	s := &scanner{data: data, limits: l.orDefault(), fields: fields}
	if len(data) > s.limits.Bytes {
		return false, &Error{Problem: TooLong, Most: s.limits.Bytes}
	}
	if at := invalidUTF8(data); at >= 0 {
		return false, &Error{Problem: NotUnicode, Offset: at}
	}
	s.blanks()
	isObject = s.peek() == '{'
	err = s.value()
	if wrong, ok := errors.AsType[*Error](err); ok {
		wrong.Element = s.element()
	}
	return isObject, err
}

// element is the number of the element, from 1, in which s is, of an array in the outermost object; 0: in none.
func (s *scanner) element() int {
	if len(s.open) < 2 || s.open[0].keys == nil {
		return 0
	}
	return s.open[1].elements
}

// value reads the value at which s is, and all that is in it. Nothing but blanks may be
// behind it.
func (s *scanner) value() error {
	for {
		begun, err := s.begin()
		if err != nil {
			return err
		}
		if begun && s.blanks() != s.top().end {
			if err := s.key(); err != nil {
				return err
			}
			continue
		}
		if !begun {
			s.ended()
		}
		more, err := s.close()
		if err != nil || !more {
			return err
		}
	}
}

// close reads what is behind a value: ends, and the comma before the next one. It reports
// false when the outermost has ended.
func (s *scanner) close() (more bool, err error) {
	for {
		c := s.blanks()
		switch {
		case len(s.open) == 0 && s.at == len(s.data):
			return false, nil
		case len(s.open) == 0:
			return false, s.broken()
		case c == s.top().end:
			s.at++
			s.open = s.open[:len(s.open)-1]
			s.ended()
		case c == ',':
			s.at++
			s.blanks()
			return true, s.key()
		default:
			return false, s.broken()
		}
	}
}

// begin reads a value that is neither object nor array, or the beginning of one that is:
// then it reports true.
func (s *scanner) begin() (begun bool, err error) {
	if s.values++; s.values > s.limits.Values {
		return false, &Error{Problem: TooMany, Most: s.limits.Values}
	}
	if len(s.open) > 0 && s.top().keys == nil {
		s.top().elements++
	}
	switch c := s.blanks(); c {
	case '{', '[':
		if len(s.open) == s.limits.Depth {
			return false, &Error{Problem: TooDeep, Most: s.limits.Depth}
		}
		one := opened{end: ']'}
		if c == '{' {
			one = opened{end: '}', keys: map[string]bool{}}
		}
		s.open = append(s.open, one)
		s.at++
		return true, nil
	case '"':
		return false, s.text()
	case 't':
		return false, s.word("true")
	case 'f':
		return false, s.word("false")
	case 'n':
		return false, s.word("null")
	}
	return false, s.number()
}

// ended notes the value of a field of the outermost object, when that has ended.
func (s *scanner) ended() {
	if len(s.open) == 1 && s.fields != nil && s.top().keys != nil {
		s.fields[s.field] = s.data[s.start:s.at:s.at]
	}
}

// key reads the name of the next field, if s is in an object.
func (s *scanner) key() error {
	keys := s.top().keys
	if keys == nil {
		return nil
	}
	start := s.at
	if s.peek() != '"' {
		return s.broken()
	}
	if err := s.text(); err != nil {
		return err
	}
	var name string
	_ = json.Unmarshal(s.data[start:s.at], &name) // it was checked
	if s.limits.Plain && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return &Error{Problem: Unknown, Field: name, Offset: start}
	}
	if keys[name] {
		return &Error{Problem: Twice, Field: name, Offset: start}
	}
	keys[name] = true
	if s.blanks() != ':' {
		return s.broken()
	}
	s.at++
	s.blanks()
	if len(s.open) == 1 {
		s.field, s.start = name, s.at
	}
	return nil
}

func (s *scanner) word(word string) error {
	if !bytes.HasPrefix(s.data[s.at:], []byte(word)) {
		return s.broken()
	}
	s.at += len(word)
	return nil
}

var number = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?`)

func (s *scanner) number() error {
	length := len(number.Find(s.data[s.at:]))
	if length == 0 {
		return s.broken()
	}
	s.at += length
	return nil
}

// text reads a string.
func (s *scanner) text() error {
	for s.at++; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return nil
		case c < ' ':
			return s.broken()
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		}
	}
	return s.broken()
}

// escape reads an escape in a string but for its last byte.
func (s *scanner) escape() error {
	s.at++
	switch c := s.peek(); {
	case c != 0 && bytes.IndexByte([]byte(`"\/bfnrt`), c) >= 0:
		return nil
	case c != 'u':
		return s.broken()
	}
	first, ok := s.unit(s.at + 1)
	if !ok {
		return s.broken()
	}
	s.at += 4
	if !utf16.IsSurrogate(first) {
		return nil
	}
	if bytes.HasPrefix(s.data[s.at+1:], []byte(`\u`)) {
		if second, ok := s.unit(s.at + 3); ok && utf16.DecodeRune(first, second) != utf8.RuneError {
			s.at += 6
			return nil
		}
	}
	return &Error{Problem: NotUnicode, Offset: s.at - 5}
}

// unit returns the four hexadecimal digits at a place.
func (s *scanner) unit(at int) (rune, bool) {
	if at+4 > len(s.data) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s.data[at:at+4]), 16, 16)
	return rune(n), err == nil
}

// blanks goes on to the next byte that is not blank, and returns it; 0 at the end.
func (s *scanner) blanks() byte {
	for s.at < len(s.data) && bytes.IndexByte([]byte(blank), s.data[s.at]) >= 0 {
		s.at++
	}
	return s.peek()
}

func (s *scanner) peek() byte {
	if s.at < len(s.data) {
		return s.data[s.at]
	}
	return 0
}

func (s *scanner) top() *opened { return &s.open[len(s.open)-1] }

func (s *scanner) broken() error { return &Error{Problem: NotJSON, Offset: s.at} }

// invalidUTF8 returns the place of the first byte that is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; ; {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
}
