package mcp

import (
	"context"
	"encoding/json"
	"fmt"

	"mneme/internal/strictjson"
	"mneme/tools"
)

// maxPaths is how many files one call deletes by name.
const maxPaths = 100

// memory does a call of the memory tool. It adds rules for deletions only: a call can name
// several files, and must name those of a directory, unless a person agrees.
func (f *face) memory(ctx context.Context, c *call) (*answer, error) {
	command := ""
	if c.err == nil {
		command, _, _ = c.fields.OptString("command")
	}
	if command == "delete" && c.fields.Has("paths") {
		return f.removeNamed(ctx, c)
	}
	call := f.Call
	if command == "delete" {
		if path, ok := onlyPath(c.fields); ok {
			agreed, asked, err := f.confirm(ctx, c, path)
			if asked != nil || err != nil {
				return asked, err
			}
			if agreed != nil {
				call = func(ctx context.Context, input json.RawMessage) tools.Result { return f.CallAgreed(ctx, input, agreed) }
			}
		}
	}
	r := call(ctx, c.raw)
	if r.Error != nil {
		return failure(r.Error), nil
	}
	a := &answer{text: []string{r.Text}, picture: r.Image}
	if len(r.Made) > 0 {
		a.fields = memoryFields{r.Text, madeOf(r.Made)}
	}
	return a, nil
}

// onlyPath returns the argument path, if there is no other.
func onlyPath(o *strictjson.Object) (path string, ok bool) {
	path, given, err := o.OptString("path")
	return path, given && err == nil && o.Done() == nil
}

// removeNamed deletes the files that a call names, all or none.
func (f *face) removeNamed(ctx context.Context, c *call) (*answer, error) {
	paths, _ := take(c, "paths", (*strictjson.Object).OptStrings)
	if c.err == nil && (len(paths) == 0 || len(paths) > maxPaths) {
		c.err = &strictjson.Error{Problem: strictjson.WrongType, Field: "paths", Want: fmt.Sprintf("an array of 1 to %d strings", maxPaths), Got: fmt.Sprintf("one of %d", len(paths))}
	}
	if err := c.done(); err != nil {
		return nil, err
	}
	made, err := f.Remove(ctx, paths)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(made))
	for i, m := range made {
		names[i] = m.Path
	}
	text := "Successfully deleted " + listed(names)
	return &answer{text: []string{text}, fields: memoryFields{text, madeOf(made)}}, nil
}

func madeOf(all []tools.Made) (fields []madeFields) {
	for _, m := range all {
		fields = append(fields, madeFields{m.Path, m.Version, m.Seq})
	}
	return fields
}
