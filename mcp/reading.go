package mcp

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/tools"
)

type listEntry struct {
	Path        string `json:"path"`
	Size        int64  `json:"size"`
	Version     string `json:"version,omitempty"`
	Seq         uint64 `json:"seq,omitempty"`
	Updated     string `json:"updated,omitempty"`
	IsDirectory bool   `json:"directory,omitempty"`
	Files       *int   `json:"files,omitempty"` // of a directory
}

func entryOf(e *tools.Entry) listEntry {
	if e.IsDir {
		return listEntry{Path: e.Path, Size: e.Size, IsDirectory: true, Files: &e.Files}
	}
	return listEntry{Path: e.Path, Size: e.Size, Version: e.Version, Seq: e.Seq, Updated: stamp(e.Updated)}
}

func (e *listEntry) String() string {
	if e.IsDirectory {
		return fmt.Sprintf("%s/ %s, %s", quote.Text(e.Path), plural.Of(*e.Files, "file"), plural.Of(e.Size, "byte"))
	}
	return fmt.Sprintf("%s %s, version %d of %s", quote.Text(e.Path), plural.Of(e.Size, "byte"), e.Seq, e.Updated)
}

func (f *face) list(ctx context.Context, c *call) (*answer, error) {
	q := tools.ListQuery{Path: c.optText("path"), Depth: c.number("depth"), After: c.optText("after"), Limit: c.number("limit")}
	if err := c.done(); err != nil {
		return nil, err
	}
	page, err := f.List(ctx, q)
	if err != nil {
		return nil, err
	}
	fields := struct {
		Entries []listEntry `json:"entries"`
		Next    string      `json:"next,omitempty"`
	}{[]listEntry{}, page.Next}
	lines := make([]string, len(page.Entries))
	for i := range page.Entries {
		e := entryOf(&page.Entries[i])
		fields.Entries, lines[i] = append(fields.Entries, e), e.String()
	}
	switch {
	case page.Next != "":
		lines = append(lines, fmt.Sprintf("There is more; go on with after %q.", page.Next))
	case len(lines) == 0:
		lines = []string{"Nothing is there."}
	}
	return &answer{text: []string{strings.Join(lines, "\n")}, fields: fields}, nil
}

func (f *face) read(ctx context.Context, c *call) (*answer, error) {
	q := tools.ReadQuery{Path: c.text("path"), Version: c.version("version"), FromLine: c.number("from_line"), Lines: c.number("lines")}
	if err := c.done(); err != nil {
		return nil, err
	}
	page, err := f.Read(ctx, q)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("%s, version %s (%d), %s.", quote.Text(page.Path), page.Version, page.Seq, linesOf(&page))
	if page.To < page.Of {
		head += fmt.Sprintf(" Go on with from_line %d.", page.To+1)
	}
	if page.From == page.To && utf8.RuneCountInString(page.Text) == tools.MaxReadChars && !strings.HasSuffix(page.Text, "\n") {
		head += " The line is longer than what is shown of it."
	}
	return &answer{text: []string{head, page.Text}}, nil
}

// linesOf says which lines of a file a page has.
func linesOf(p *tools.ReadPage) string {
	switch {
	case p.Of == 0:
		return "empty"
	case p.Of == 1:
		return "1 line"
	case p.From == p.To:
		return fmt.Sprintf("line %d of %d", p.From, p.Of)
	}
	return fmt.Sprintf("lines %d to %d of %d", p.From, p.To, p.Of)
}

func (f *face) search(ctx context.Context, c *call) (*answer, error) {
	q := tools.Query{
		Text: c.secret("query"), Under: c.optText("path"), Regexp: c.flag("regex"), IgnoreCase: c.flag("ignore_case"),
		Limit: c.number("limit"), After: c.optText("after"),
	}
	if err := c.done(); err != nil {
		return nil, err
	}
	select {
	case f.searches <- struct{}{}:
		defer func() { <-f.searches }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	matches, covered, err := f.Search(ctx, q)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for i, m := range matches {
		if i == 0 || matches[i-1].Path != m.Path {
			fmt.Fprintf(&b, "%s, version %d:\n", quote.Text(m.Path), m.Seq) // once, and not the id: tokens
		}
		fmt.Fprintf(&b, "%d: %s\n", m.Line, m.Text)
	}
	if len(matches) == 0 {
		b.WriteString("No line matches. ")
	}
	b.WriteString(covered.String())
	return &answer{text: []string{b.String()}}, nil
}

type versionFields struct {
	Version string `json:"version"`
	Seq     uint64 `json:"seq"`
	Op      string `json:"op"`
	Path    string `json:"path"`
	From    string `json:"from,omitempty"`
	Size    int64  `json:"size"`
	By      string `json:"by"`
	Session string `json:"session,omitempty"`
	Time    string `json:"time"`
	Message string `json:"message,omitempty"`
	Erased  bool   `json:"erased,omitempty"`
}

func (v *versionFields) String() string {
	text := strconv.FormatUint(v.Seq, 10) + " " + v.Op
	if v.Erased {
		return text + fmt.Sprintf(", erased, by %s, %s", quote.Text(v.By), v.Time)
	}
	text += " " + quote.Text(v.Path)
	if v.From != "" {
		text += " from " + quote.Text(v.From)
	}
	text += fmt.Sprintf(", %s, by %s, %s", plural.Of(v.Size, "byte"), quote.Text(v.By), v.Time)
	if v.Message != "" {
		text += ": " + quote.Name(v.Message)
	}
	return text
}

func (f *face) history(ctx context.Context, c *call) (*answer, error) {
	q := tools.HistoryQuery{Path: c.optText("path"), Before: uint64(c.number("before")), Limit: c.number("limit")}
	if err := c.done(); err != nil {
		return nil, err
	}
	page, err := f.History(ctx, q)
	if err != nil {
		return nil, err
	}
	fields := struct {
		Versions []versionFields `json:"versions"`
		Next     uint64          `json:"next,omitempty"`
	}{[]versionFields{}, page.Next}
	lines := make([]string, len(page.Versions))
	for i, v := range page.Versions {
		one := versionFields{
			Version: v.Version, Seq: v.Seq, Op: v.Op, Path: v.Path, From: v.From, Size: v.Size, By: v.By, Session: v.Session,
			Time: stamp(v.Time), Message: v.Message, Erased: v.Erased,
		}
		fields.Versions, lines[i] = append(fields.Versions, one), one.String()
	}
	if page.Next != 0 {
		lines = append(lines, fmt.Sprintf("There are older ones; go on with before %d.", page.Next))
	}
	if len(lines) == 0 {
		lines = []string{"There are none."}
	}
	return &answer{text: []string{strings.Join(lines, "\n")}, fields: fields}, nil
}

func (f *face) diff(ctx context.Context, c *call) (*answer, error) {
	path, from, to := c.text("path"), c.version("from"), c.version("to")
	if err := c.done(); err != nil {
		return nil, err
	}
	d, err := f.Diff(ctx, path, from, to)
	if err != nil {
		return nil, err
	}
	text := d.Text
	if text == "" {
		text = "They are the same."
	}
	if d.Cut {
		text += "The comparison is longer than is shown."
	}
	return &answer{text: []string{text}, fields: struct {
		From string `json:"from"`
		To   string `json:"to"`
		Diff string `json:"diff"`
		Cut  bool   `json:"cut,omitempty"`
	}{d.From.Version, d.To.Version, d.Text, d.Cut}}, nil
}
