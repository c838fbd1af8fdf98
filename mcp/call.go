package mcp

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mneme/history"
	"mneme/internal/strictjson"
	"mneme/tools"
)

// call is a call of a tool. Each getter takes an argument; done returns the error of the
// first wrong argument.
type call struct {
	*sdk.CallToolRequest
	raw    json.RawMessage // the arguments
	spec   *spec
	fields *strictjson.Object
	err    error
}

// newCall reads the arguments of a call.
func newCall(r *sdk.CallToolRequest, s *spec) *call {
	c := &call{CallToolRequest: r, raw: r.Params.Arguments, spec: s}
	if len(c.raw) == 0 {
		c.raw = json.RawMessage("{}")
	}
	// How long a line or a request may be is up to the transport.
	if c.fields, c.err = strictjson.Parse(c.raw, &strictjson.Limits{Bytes: len(c.raw)}); c.err == nil {
		c.fields.DropNulls()
	}
	return c
}

// done returns what is wrong with the arguments: an *Error of package tools that names the
// field.
func (c *call) done() error {
	if c.err == nil {
		c.err = c.fields.Done()
	}
	if c.err == nil {
		return nil
	}
	return tools.Documentation.Misread(c.err, c.spec.Name, c.spec.fields)
}

// take takes an argument; the zero value stands for one that is not there.
func take[T any](c *call, name string, get func(*strictjson.Object, string) (T, bool, error)) (value T, given bool) {
	if c.err != nil {
		return value, false
	}
	value, given, c.err = get(c.fields, name)
	return value, given
}

// optText returns an argument that is a string, "" if it is not there.
func (c *call) optText(name string) string {
	s, _ := take(c, name, (*strictjson.Object).OptString)
	return s
}

// text returns an argument that is a string.
func (c *call) text(name string) string {
	s, given := take(c, name, (*strictjson.Object).OptString)
	c.want(name, given)
	return s
}

// secret returns an argument that holds content.
func (c *call) secret(name string) tools.Secret { return tools.NewSecret(c.text(name)) }

// want notes that an argument is missing.
func (c *call) want(name string, given bool) {
	if c.err == nil && !given {
		c.err = &strictjson.Error{Problem: strictjson.Missing, Field: name}
	}
}

// version returns an argument that names a version: its id, or its sequence number as a string
// or as a number. The schema says
// string: not every host knows several types. It returns "" if the argument is not there.
// Words are what else it may be.
func (c *call) version(name string, words ...string) string {
	if c.err != nil {
		return ""
	}
	raw := c.fields.Peek(name)
	if raw == nil {
		return ""
	}
	ref, got := "", "another value"
	if raw[0] == '"' {
		ref, got = c.optText(name), "another word"
	} else if n, _, err := c.fields.OptInt(name); err == nil {
		ref = strconv.FormatInt(n, 10)
	}
	if slices.Contains(words, ref) || history.IsVersionRef(ref) {
		return ref
	}
	if raw[0] == '"' && ref == "" {
		got = "empty"
	}
	want := strings.Join(append(words, "a version id (memver_…)"), ", ") + " or a sequence number"
	c.err = &strictjson.Error{Problem: strictjson.WrongType, Field: name, Want: want, Got: got}
	return ""
}

// number returns an argument that is a whole number and not below 0; 0 if it is not there.
func (c *call) number(name string) int {
	n, _ := take(c, name, (*strictjson.Object).OptInt)
	if c.err == nil && n < 0 {
		c.err = &strictjson.Error{Problem: strictjson.OutOfRange, Field: name}
	}
	return int(n)
}

// flag returns an argument that is true or false; false if it is not there.
func (c *call) flag(name string) bool {
	b, _ := take(c, name, (*strictjson.Object).OptBool)
	return b
}

// oneOf returns an argument that is one of some words. Without required it may be left out.
func (c *call) oneOf(name string, required bool, words ...string) string {
	s, given := take(c, name, (*strictjson.Object).OptString)
	if required {
		c.want(name, given)
	}
	if c.err == nil && given {
		for _, word := range words {
			if s == word {
				return s
			}
		}
		c.err = &strictjson.Error{Problem: strictjson.WrongType, Field: name, Want: "one of " + strings.Join(words, ", "), Got: "another word"}
	}
	return s
}

// answer is the result of a call of a tool, for a person and for a program.
type answer struct {
	text    []string // blocks of text
	picture *tools.Image
	fields  any // an object, as the tool's output schema has it; nil where it would only repeat the text
	failure *tools.Error
	asks    *sdk.CallToolResult // the client is asked first; the rest is nothing then
}

// result is a as the SDK has it.
func (a *answer) result() *sdk.CallToolResult {
	if a.asks != nil {
		return a.asks
	}
	r := &sdk.CallToolResult{StructuredContent: a.fields, IsError: a.failure != nil, Content: []sdk.Content{}}
	for _, text := range a.text {
		r.Content = append(r.Content, &sdk.TextContent{Text: text})
	}
	if a.picture != nil {
		r.Content = append(r.Content, &sdk.ImageContent{Data: a.picture.Data, MIMEType: a.picture.MediaType})
	}
	return r
}

// errorFields are the fields of an error for programs.
type errorFields struct {
	Kind     string `json:"kind"`
	Retry    string `json:"retry"`
	Text     string `json:"text"`
	Conflict int    `json:"conflict,omitempty"`
	Unsure   bool   `json:"unsure,omitempty"`
}

// failure is the answer of an error.
func failure(e *tools.Error) *answer {
	return &answer{text: []string{e.Error()}, failure: e, fields: map[string]errorFields{"error": {
		Kind: e.Kind.String(), Retry: e.Retry.String(), Text: e.Error(), Conflict: e.Conflict, Unsure: e.Unsure,
	}}}
}

// stamp is a time as results have it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
