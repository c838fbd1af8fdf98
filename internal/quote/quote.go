// Package quote shows text that others chose: names, sessions, messages,
// descriptions. It returns one line in which every character can be seen, so that the text
// neither controls a reader's terminal nor deceives the reader. All code that prints such
// text uses this package.
package quote

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The longest texts that are shown whole, in bytes; the rest is counted.
const (
	// MaxName is room for the place of a memory, and for a store's description.
	MaxName = 4 << 10
	// MaxLine is room for a message that names two places.
	MaxLine = 8 << 10
)

// Text returns s with an escape, as Go writes it, for every character that is
// not Shown and every byte that is not UTF-8. Line breaks and tabs are escaped,
// backslashes are not.
func Text(s string) string {
	var b strings.Builder
	writeShown(&b, s)
	return b.String()
}

// Cell is Text for a place where the ends of s cannot be seen: what has a space there
// is quoted as Name does it, and so is what could be taken for such a name.
func Cell(s string) string {
	if strings.HasPrefix(s, " ") || strings.HasSuffix(s, " ") || len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		return Name(s)
	}
	return Text(s)
}

// Git returns a path in double quotes, as git writes and reads one in patches and in the input
// of fast-import: with escapes for quotes, backslashes and control characters, and all other
// bytes as they are. It is not bounded.
func Git(path string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(path) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Name returns s in double quotes, as a string of Go that strconv.Unquote
// takes, so that words in it are not taken for those of the sentence around it.
// If s is longer than MaxName, the result has the beginning.
func Name(s string) string {
	s, rest := cut(s, MaxName)
	var b strings.Builder
	b.WriteByte('"')
	for part := range strings.SplitAfterSeq(s, `\`) {
		plain, backslash := strings.CutSuffix(part, `\`)
		for i, between := range strings.Split(plain, `"`) {
			if i > 0 {
				b.WriteString(`\"`)
			}
			writeShown(&b, between)
		}
		if backslash {
			b.WriteString(`\\`)
		}
	}
	b.WriteByte('"')
	return b.String() + rest
}

// Place puts double quotes around the place that a text is about: the first
// STORE:/path in it, or a bare name behind the operation's name.
func Place(text, path string) string {
	before, after, found := strings.Cut(text, path)
	if !strings.HasPrefix(path, "/") {
		before, after, found = strings.Cut(text, " "+path+":")
		before, after = before+" ", ":"+after
	}
	if !found {
		return text
	}
	store := strings.LastIndexByte(before, ' ') + 1
	return before[:store] + Name(before[store:]+path) + after
}

// Line is Text for a whole message, of which it has the beginning when it is
// longer than MaxLine. Lines of the message are joined with "; ".
func Line(s string) string {
	s, rest := cut(s, MaxLine)
	return Text(strings.ReplaceAll(s, "\n", "; ")) + rest
}

// cut returns the beginning of s, at most so many bytes, and what to say of the
// rest.
func cut(s string, most int) (beginning, rest string) {
	if len(s) <= most {
		return s, ""
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end], "… (" + strconv.Itoa(len(s)) + " bytes)"
}

func writeShown(b *strings.Builder, s string) {
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i]), 16))
		case Shown(s, i):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
}
