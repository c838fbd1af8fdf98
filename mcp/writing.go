package mcp

import (
	"context"
	"fmt"

	"mneme/internal/quote"
	"mneme/tools"
)

type madeFields struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	Seq     uint64 `json:"seq"`
}

// memoryFields are the result of a change by the memory tool. The text is among them, since some
// clients show a model nothing else then.
type memoryFields struct {
	Text string       `json:"text"`
	Made []madeFields `json:"made"`
}

type writtenFields struct {
	madeFields
	Created bool `json:"created"`
}

func written(verb string, made tools.Made) *answer {
	text := []string{fmt.Sprintf("%s %s: version %s (%d).", verb, quote.Text(made.Path), made.Version, made.Seq)}
	if made.Note != "" {
		text = append(text, made.Note)
	}
	return &answer{
		text:   text,
		fields: writtenFields{madeFields{made.Path, made.Version, made.Seq}, made.Created},
	}
}

func (f *face) write(ctx context.Context, c *call) (*answer, error) {
	w := tools.WriteQuery{Path: c.text("path"), Text: c.secret("text"), IfVersion: c.version("if_version", tools.IfNone), Message: c.optText("message")}
	if err := c.done(); err != nil {
		return nil, err
	}
	made, err := f.Write(ctx, w)
	if err != nil {
		return nil, err
	}
	return written("Wrote", made), nil
}

func (f *face) restore(ctx context.Context, c *call) (*answer, error) {
	path, version := c.text("path"), c.version("version")
	c.want("version", version != "")
	if err := c.done(); err != nil {
		return nil, err
	}
	made, err := f.Restore(ctx, path, version)
	if err != nil {
		return nil, err
	}
	return written("Restored", made), nil
}
