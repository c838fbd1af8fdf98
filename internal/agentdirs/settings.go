package agentdirs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mneme/internal/strictjson"
)

// ErrNotJSON says that a file of settings is not JSON as RFC 8259 has it: it may have
// comments, or a name twice. It has to be changed by hand.
var ErrNotJSON = errors.New("the settings are not plain JSON")

// Edit is a change of a text at one place, which can be undone.
type Edit struct {
	Offset   int    `json:"offset"`
	Removed  string `json:"removed"`
	Inserted string `json:"inserted"`
	After    string `json:"after_sha256"` // of the whole text then
}

// Undo returns the text as it was before the edit, or false if it is another text than the edit
// has made.
func (e *Edit) Undo(text []byte) ([]byte, bool) {
	end := e.Offset + len(e.Inserted)
	if sumOf(text) != e.After || e.Offset < 0 || end > len(text) {
		return nil, false
	}
	return slices.Concat(text[:e.Offset], []byte(e.Removed), text[end:]), true
}

// Is reports whether a text is the one that the edit has made.
func (e *Edit) Is(text []byte) bool { return sumOf(text) == e.After }

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// settingsLimits bound a file of settings.
var settingsLimits = &strictjson.Limits{Bytes: 1 << 20, Depth: 64, Values: 100_000}

// StringAt returns the string at a key of settings, an empty text being none. It is an error,
// ErrNotJSON among others, if what is there is no string, or lies in no object.
func StringAt(text []byte, key []string) (value string, there bool, err error) {
	at, err := find(text, key)
	if err != nil || !at.there {
		return "", false, err
	}
	if err := json.Unmarshal(text[at.start:at.end], &value); err != nil || text[at.start] != '"' { // null is no error
		return "", false, fmt.Errorf("the setting %s is not a string", strings.Join(key, "."))
	}
	return value, true, nil
}

// SetString puts a string at a key of settings, and leaves everything else as it stands, blanks
// included. The errors are those of StringAt.
func SetString(text []byte, key []string, value string) ([]byte, *Edit, error) {
	if _, _, err := StringAt(text, key); err != nil {
		return nil, nil, err
	}
	quoted, err := json.Marshal(value)
	if err != nil {
		return nil, nil, err
	}
	at, err := find(text, key)
	switch {
	case err != nil:
		return nil, nil, err
	case at.there:
		edited, edit := splice(text, at.start, at.end, string(quoted))
		return edited, edit, nil
	case len(bytes.TrimSpace(text)) == 0:
		edited, edit := splice(text, 0, len(text), "{\n  "+member(key, string(quoted), "  ")+"\n}\n")
		return edited, edit, nil
	}
	inserted := firstMember(text[at.open:], key[at.depth:], string(quoted), at)
	if bytes.Contains(text, []byte("\r\n")) { // as its other lines end
		inserted = strings.ReplaceAll(strings.ReplaceAll(inserted, "\r\n", "\n"), "\n", "\r\n")
	}
	edited, edit := splice(text, at.open, at.open, inserted)
	return edited, edit, nil
}

// firstMember writes a member for the beginning of an object, of which what follows the brace is
// given, as its other members are written.
func firstMember(rest []byte, key []string, value string, at spot) string {
	indent := strings.Repeat("  ", at.depth+1)
	if at.empty {
		return "\n" + indent + member(key, value, indent) + "\n" + indent[2:]
	}
	blank := string(rest[:len(rest)-len(bytes.TrimLeft(rest, blanks))])
	if _, theirs, broken := strings.Cut(blank, "\n"); broken {
		return "\n" + theirs + member(key, value, theirs) + ","
	}
	return member(key, value, indent) + ", "
}

// Unset takes the member at a key out of settings, for a text that was changed since SetString
// has put it there.
func Unset(text []byte, key []string) ([]byte, error) {
	at, err := find(text, key)
	if err != nil || !at.there {
		return text, err
	}
	from, to := at.name, at.end
	rest := bytes.TrimLeft(text[to:], blanks)
	if bytes.HasPrefix(rest, []byte(",")) {
		after := bytes.TrimLeft(rest[1:], blanks)
		to = len(text) - len(after)
	} else if before := bytes.TrimRight(text[:from], blanks); bytes.HasSuffix(before, []byte(",")) {
		from = len(before) - 1
	}
	return slices.Concat(text[:from], text[to:]), nil
}

const blanks = " \t\r\n"

// splice replaces a part of a text.
func splice(text []byte, from, to int, inserted string) ([]byte, *Edit) {
	edited := slices.Concat(text[:from], []byte(inserted), text[to:])
	return edited, &Edit{Offset: from, Removed: string(text[from:to]), Inserted: inserted, After: sumOf(edited)}
}

// member writes a member, whose further names are objects in it.
func member(key []string, value, indent string) string {
	name, _ := json.Marshal(key[0]) // a string always can
	if len(key) == 1 {
		return string(name) + ": " + value
	}
	deeper := indent + "  "
	return string(name) + ": {\n" + deeper + member(key[1:], value, deeper) + "\n" + indent + "}"
}

// spot is where a key is in settings, or where it would go.
type spot struct {
	there            bool
	name, start, end int // where its name begins, and its value begins and ends

	depth int  // of the deepest object on the way that is there
	open  int  // behind that one's brace
	empty bool // that one has no members
}

// find finds a key.
func find(text []byte, key []string) (spot, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return spot{}, nil
	}
	if err := strictjson.Check(text, settingsLimits); err != nil {
		return spot{}, fmt.Errorf("%w: %w", ErrNotJSON, err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	var at spot
	for depth, want := range key {
		open, err := d.Token()
		if err != nil || open != json.Delim('{') {
			return spot{}, fmt.Errorf("the settings have no object where %s would be", strings.Join(key, "."))
		}
		at.depth, at.open, at.empty = depth, int(d.InputOffset()), !d.More()
		if !at.skipTo(d, text, want) {
			return at, nil
		}
	}
	var value json.RawMessage
	if err := d.Decode(&value); err != nil {
		return spot{}, err
	}
	at.there, at.end = true, int(d.InputOffset())
	at.start = at.end - len(value)
	return at, nil
}

// skipTo reads an object up to the value of a member, and reports whether there is one.
func (at *spot) skipTo(d *json.Decoder, text []byte, want string) bool {
	for d.More() {
		before := int(d.InputOffset())
		name, err := d.Token()
		if err != nil {
			return false
		}
		if name == want {
			at.name = before + bytes.IndexByte(text[before:], '"')
			return true
		}
		var skipped json.RawMessage
		if d.Decode(&skipped) != nil {
			return false
		}
	}
	return false
}
