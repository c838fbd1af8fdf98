package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"mneme/internal/quote"
)

// textOf returns what the memory of a turn holds: front matter, whose scalars are JSON, so that
// it is YAML whatever they hold; then each entry below a heading with its role. The front
// matter says how many lines each entry has, since its text is not changed, but for U+0000, and may itself hold
// what looks like a heading. The same batch is the same bytes.
func textOf(b *Batch) ([]byte, error) {
	var front, body bytes.Buffer
	front.WriteString("---\n")
	for _, f := range b.texts() {
		if *f.text != "" {
			value, err := scalar(*f.text)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&front, "%s: %s\n", f.name, value)
		}
	}
	front.WriteString("entries:\n")
	for i, e := range b.Entries {
		text := strings.ReplaceAll(e.Text, "\x00", "\ufffd") // else no reader takes the memory for text
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		value, err := entryJSON(i, &e, strings.Count(text, "\n"))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&front, "  - %s\n", value)
		fmt.Fprintf(&body, "\n## %s\n\n%s", quote.Line(roleOf(&e)), text)
	}
	meta, err := metaJSON(b.Meta)
	if err != nil {
		return nil, err
	}
	if meta != nil {
		fmt.Fprintf(&front, "meta: %s\n", meta)
	}
	front.WriteString("---\n")
	return append(front.Bytes(), body.Bytes()...), nil
}

// entryJSON is the front matter of an entry.
func entryJSON(i int, e *Entry, lines int) ([]byte, error) {
	meta, err := metaJSON(e.Meta)
	if err != nil {
		return nil, err
	}
	return scalar(struct {
		ID    string          `json:"id"`
		Role  string          `json:"role"`
		Lines int             `json:"lines"`
		Meta  json.RawMessage `json:"meta,omitempty"`
	}{idOf(i, e), roleOf(e), lines, meta})
}

// idOf returns the id of the entry of an index.
func idOf(i int, e *Entry) string {
	if e.ID == "" {
		return strconv.Itoa(i + 1)
	}
	return e.ID
}

func roleOf(e *Entry) string {
	if e.Role == "" {
		return "entry"
	}
	return e.Role
}

// frontMatter returns the length of the front matter that a text begins with; 0: it has none.
func frontMatter(text []byte) int {
	const fence = "---\n"
	if !bytes.HasPrefix(text, []byte(fence)) {
		return 0
	}
	end := bytes.Index(text[len(fence)-1:], []byte("\n"+fence))
	if end < 0 {
		return 0
	}
	return len(fence) - 1 + end + len("\n"+fence)
}
