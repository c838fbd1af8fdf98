package tools

import (
	"encoding/json"
	"errors"
	"strings"

	"mneme/errkind"
	"mneme/internal/quote"
	"mneme/internal/strictjson"
)

// request is one call of the memory tool. Which fields are used is up to the command.
type request struct {
	command          string
	path             string
	lines            []int64 // view_range; nil: all
	fileText         Secret
	oldText, newText Secret
	line             int64 // insert_line
	insertText       Secret
	oldPath, newPath string
	told             string          // what the result says besides
	agreed           map[string]bool // ids of the versions that a deletion of a directory may take; nil: any
}

// field is a field of a command.
type field struct {
	name     string
	optional bool
	schema   string // JSON
	read     func(o *strictjson.Object, name string, r *request) (given bool, err error)
}

const stringSchema = `{"type":"string"}`

// optional is a field that may be left out.
func optional(f field) field {
	f.optional = true
	return f
}

// plainText is a field whose value may stand in an error.
func plainText(name string, to func(*request) *string) field {
	return field{name: name, schema: stringSchema, read: func(o *strictjson.Object, name string, r *request) (given bool, err error) {
		*to(r), given, err = o.OptString(name)
		return given, err
	}}
}

// secretText is a field that holds content which is looked for.
func secretText(name string, to func(*request) *Secret) field {
	return field{name: name, schema: stringSchema, read: func(o *strictjson.Object, name string, r *request) (bool, error) {
		text, given, err := o.OptString(name)
		*to(r) = NewSecret(text)
		return given, err
	}}
}

// newContent is a field that holds new content of a file.
func newContent(name string, to func(*request) *Secret) field {
	f := secretText(name, to)
	read := f.read
	f.read = func(o *strictjson.Object, name string, r *request) (bool, error) {
		given, err := read(o, name, r)
		if err == nil && hasNUL(to(r).Reveal()) {
			err = errNUL
		}
		return given, err
	}
	return f
}

// errNUL says that a text has a byte with which no view would show the file any more.
var errNUL = errors.New("the character U+0000 is in it")

func hasNUL(text string) bool { return strings.IndexByte(text, 0) >= 0 }

var (
	pathField = plainText("path", func(r *request) *string { return &r.path })
	viewRange = field{name: "view_range", optional: true, schema: `{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2}`, read: func(o *strictjson.Object, name string, r *request) (given bool, err error) {
		r.lines, given, err = o.OptInts(name, 2)
		return given, err
	}}
	insertLine = field{name: "insert_line", schema: `{"type":"integer"}`, read: func(o *strictjson.Object, name string, r *request) (given bool, err error) {
		r.line, given, err = o.OptInt(name)
		return given, err
	}}
	newText = optional(newContent("new_str", func(r *request) *Secret { return &r.newText }))
)

// commands are the fields of each command, besides its name.
var commands = map[string][]field{
	"view":        {pathField, viewRange},
	"create":      {pathField, newContent("file_text", func(r *request) *Secret { return &r.fileText })},
	"str_replace": {pathField, secretText("old_str", func(r *request) *Secret { return &r.oldText }), newText},
	"insert":      {pathField, insertLine, newContent("insert_text", func(r *request) *Secret { return &r.insertText })},
	"delete":      {pathField},
	"rename": {
		plainText("old_path", func(r *request) *string { return &r.oldPath }),
		plainText("new_path", func(r *request) *string { return &r.newPath }),
	},
}

// decode reads a call. It takes nothing that is not one of the commands with exactly its
// fields. most is how long it may be, in bytes.
func (t Texts) decode(input json.RawMessage, most int) (*request, *Error) {
	o, err := strictjson.Parse(input, &strictjson.Limits{Bytes: most})
	if err != nil {
		return nil, t.misread(err, "", "")
	}
	o.DropNulls()
	r := &request{}
	if r.command, err = o.String("command"); err != nil {
		return nil, t.misread(err, "a call", "")
	}
	fields, known := commands[r.command]
	if !known {
		return nil, failed(errkind.Invalid, t.say(noCommand, quote.Name(clip(r.command, maxWord))))
	}
	for _, f := range fields {
		given, err := f.read(o, f.name, r)
		if err == nil && !given && !f.optional {
			err = &strictjson.Error{Problem: strictjson.Missing, Field: f.name}
		}
		if errors.Is(err, errNUL) {
			return nil, failed(errkind.Invalid, t.say(fieldNUL, f.name))
		}
		if err != nil {
			return nil, t.misread(err, r.command, fieldNames(fields))
		}
	}
	if err := o.Done(); err != nil {
		return nil, t.misread(err, r.command, fieldNames(fields))
	}
	return r, nil
}

// maxWord bounds how much of an unknown command is shown, in bytes.
const maxWord = 64

// Misread is the error of a call that package strictjson refuses, for a face that has verbs
// of its own: call is what takes the fields.
func (t Texts) Misread(err error, call string, fields []string) *Error {
	quoted := make([]string, len(fields))
	for i, name := range fields {
		quoted[i] = "`" + name + "`"
	}
	return t.misread(err, call, list(quoted))
}

// misread is the error of an input that cannot be decoded; takes are the fields of the command.
func (t Texts) misread(err error, command, takes string) *Error {
	var wrong *strictjson.Error
	if !errors.As(err, &wrong) {
		return failed(errkind.Invalid, t.say(notJSON))
	}
	name := wrong.Shown()
	var said string
	switch wrong.Problem {
	case strictjson.NotObject:
		said = t.say(notObject)
	case strictjson.NotUnicode:
		said = t.say(notUnicode)
	case strictjson.TooLong:
		said = t.say(tooLong, wrong.Most)
	case strictjson.TooDeep:
		said = t.say(tooDeep)
	case strictjson.TooMany:
		said = t.say(tooManyParts)
	case strictjson.Twice:
		said = t.say(fieldTwice, name)
	case strictjson.Missing:
		said = t.say(fieldMissing, name, command)
	case strictjson.Unknown:
		said = t.say(fieldUnknown, name, command, takes)
	case strictjson.WrongType:
		said = t.say(fieldType, name, wrong.Want, wrong.Got)
	case strictjson.OutOfRange:
		said = t.say(fieldRange, name)
	default:
		said = t.say(notJSON)
	}
	return failed(errkind.Invalid, said)
}

func fieldNames(fields []field) string {
	names := []string{"`command`"}
	for _, f := range fields {
		names = append(names, "`"+f.name+"`")
	}
	return list(names)
}
