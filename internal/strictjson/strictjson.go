// Package strictjson reads one JSON object of a request and takes nothing that is not
// exactly what was asked for: no field twice, none that is unknown, no number as a
// string, no text that is not Unicode. An optional field that is null is as good as not given. encoding/json takes the last of two fields, puts
// U+FFFD in the place of half a character and matches names without regard to case.
//
// An error names fields, never their values, so that it may be logged.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Parse is Check for an object, which it returns.
func Parse(data []byte, l *Limits) (*Object, error) {
	o := &Object{fields: map[string]json.RawMessage{}}
	isObject, err := scan(data, l, o.fields)
	switch {
	case err != nil:
		return nil, err
	case !isObject:
		return nil, notObject(bytes.TrimLeft(data, blank))
	}
	return o, nil
}

func notObject(raw []byte) error {
	return &Error{Problem: NotObject, Want: "an object", Got: typeOf(raw)}
}

// ObjectOf returns an element of OptArray that is an object. The error is NotObject.
func ObjectOf(raw json.RawMessage) (*Object, error) {
	o, problem := objectOf(raw)
	if problem != 0 {
		return nil, notObject(raw)
	}
	return o, nil
}

// Object is a JSON object. Each getter takes its field out; Done says whether others are
// left. An error is an *Error: Missing, WrongType or OutOfRange.
type Object struct {
	fields map[string]json.RawMessage // each value without blanks around it
}

// Has reports whether there is a field of that name that no getter has taken.
func (o *Object) Has(name string) bool {
	_, there := o.fields[name]
	return there
}

// Names returns the names of the fields that no getter has taken, in byte order.
func (o *Object) Names() []string { return slices.Sorted(maps.Keys(o.fields)) }

// Peek returns the value of a field as Raw does, and leaves it there.
func (o *Object) Peek(name string) json.RawMessage { return o.fields[name] }

// Raw returns the value of a field, which is one JSON value; nil if there is none.
func (o *Object) Raw(name string) json.RawMessage {
	raw := o.fields[name]
	delete(o.fields, name)
	return raw
}

// Done returns an error if a field is left: Unknown, of the first in byte order.
func (o *Object) Done() error {
	if len(o.fields) == 0 {
		return nil
	}
	return &Error{Problem: Unknown, Field: o.Names()[0]}
}

// String returns a field that is a string.
func (o *Object) String(name string) (string, error) {
	return required(o, name, aString, stringOf)
}

// OptString returns a field that is a string, if it is given.
func (o *Object) OptString(name string) (s string, given bool, err error) {
	return optional(o, name, aString, stringOf)
}

// Int returns a field that is a whole number without an exponent: 1.0 is 1.
func (o *Object) Int(name string) (int64, error) {
	return required(o, name, wholeNumber, intOf)
}

// OptInt returns a field as Int does, if it is given.
func (o *Object) OptInt(name string) (n int64, given bool, err error) {
	return optional(o, name, wholeNumber, intOf)
}

// OptBool returns a field that is true or false, if it is given.
func (o *Object) OptBool(name string) (b, given bool, err error) {
	return optional(o, name, "true or false", func(raw []byte) (bool, Problem) {
		if raw[0] != 't' && raw[0] != 'f' {
			return false, WrongType
		}
		return raw[0] == 't', 0
	})
}

// OptInts returns a field that is an array of exactly so many numbers as Int takes them,
// if it is given.
func (o *Object) OptInts(name string, number int) (ns []int64, given bool, err error) {
	return optional(o, name, "an array of "+strconv.Itoa(number)+" whole numbers", func(raw []byte) ([]int64, Problem) {
		ns, problem := arrayOf(raw, intOf)
		if problem == 0 && len(ns) != number {
			problem = WrongType
		}
		return ns, problem
	})
}

// OptStrings returns a field that is an array of strings, if it is given.
func (o *Object) OptStrings(name string) (texts []string, given bool, err error) {
	return optional(o, name, "an array of strings", func(raw []byte) ([]string, Problem) { return arrayOf(raw, stringOf) })
}

// Object returns a field that is an object.
func (o *Object) Object(name string) (*Object, error) {
	return required(o, name, anObject, objectOf)
}

// OptObject returns a field that is an object, if it is given.
func (o *Object) OptObject(name string) (inner *Object, given bool, err error) {
	return optional(o, name, anObject, objectOf)
}

// OptArray returns the elements of a field that is an array, if it is given.
func (o *Object) OptArray(name string) (elements []json.RawMessage, given bool, err error) {
	return optional(o, name, "an array", func(raw []byte) ([]json.RawMessage, Problem) {
		return arrayOf(raw, func(raw []byte) (json.RawMessage, Problem) { return raw, 0 })
	})
}

// OptObjects returns a field that is an array of objects, if it is given.
func (o *Object) OptObjects(name string) (inner []*Object, given bool, err error) {
	return optional(o, name, "an array of objects", func(raw []byte) ([]*Object, Problem) { return arrayOf(raw, objectOf) })
}

// DropNulls takes out the fields that are null: they are as good as not given.
func (o *Object) DropNulls() {
	maps.DeleteFunc(o.fields, func(_ string, raw json.RawMessage) bool { return isNull(raw) })
}

func isNull(raw []byte) bool { return string(raw) == "null" }

const (
	aString     = "a string"
	anObject    = "an object"
	wholeNumber = "a whole number"
)

// optional takes a field out of o and reads it. One that is null is not given.
func optional[T any](o *Object, name, want string, read func(raw []byte) (T, Problem)) (value T, given bool, err error) {
	raw := o.Raw(name)
	if raw == nil || isNull(raw) {
		return value, false, nil
	}
	value, err = readField(name, raw, want, read)
	return value, true, err
}

// required takes a field out of o, which must be there, and reads it.
func required[T any](o *Object, name, want string, read func(raw []byte) (T, Problem)) (value T, err error) {
	raw := o.Raw(name)
	if raw == nil {
		return value, &Error{Problem: Missing, Field: name}
	}
	return readField(name, raw, want, read)
}

func readField[T any](name string, raw []byte, want string, read func(raw []byte) (T, Problem)) (T, error) {
	value, problem := read(raw)
	if problem != 0 {
		return value, &Error{Problem: problem, Field: name, Want: want, Got: got(raw, want, problem)}
	}
	return value, nil
}

// got names a value that is not what is wanted.
func got(raw []byte, want string, problem Problem) string {
	switch {
	case problem == OutOfRange:
		return "a number that 64 bits do not hold"
	case raw[0] == '[' && strings.HasPrefix(want, "an array"):
		return "another array"
	}
	return typeOf(raw)
}

func stringOf(raw []byte) (s string, problem Problem) {
	if raw[0] != '"' {
		return "", WrongType
	}
	_ = json.Unmarshal(raw, &s) // it was checked
	return s, 0
}

func objectOf(raw []byte) (*Object, Problem) {
	if raw[0] != '{' {
		return nil, WrongType
	}
	inner := &Object{}
	_ = json.Unmarshal(raw, &inner.fields) // it was checked with what is around it
	return inner, 0
}

func intOf(raw []byte) (int64, Problem) {
	whole := string(raw)
	if before, fraction, ok := strings.Cut(whole, "."); ok && strings.Trim(fraction, "0") == "" {
		whole = before // as some languages write every number
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, OutOfRange
	case err != nil:
		return 0, WrongType
	}
	return n, 0
}

func arrayOf[T any](raw []byte, read func(raw []byte) (T, Problem)) (values []T, problem Problem) {
	var elements []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &elements) != nil {
		return nil, WrongType
	}
	for _, element := range elements {
		value, problem := read(element)
		if problem != 0 {
			return nil, problem
		}
		values = append(values, value)
	}
	return values, 0
}
