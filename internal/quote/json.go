package quote

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
)

// JSON returns finished JSON in other words: with a \u escape for every character
// that is not printable or has no width of its own, in every string. Whatever
// reads it gets the same value. It may return data itself.
func JSON(data []byte) []byte {
	isEscaped := func(r rune) bool { return r >= 0x7f && (!strconv.IsPrint(r) || IsBlank(r)) }
	if !bytes.ContainsFunc(data, isEscaped) {
		return data
	}
	var b bytes.Buffer
	for _, r := range string(data) {
		switch {
		case !isEscaped(r):
			b.WriteRune(r)
		case utf16.RuneLen(r) == 2:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// LogLine is Line for a line that a logger has made, with the line break that
// ends it. Nothing in it is changed otherwise.
func LogLine(line []byte) []byte {
	text := string(bytes.TrimSuffix(line, []byte("\n")))
	shown := Line(text)
	if shown == text && len(line) > len(text) {
		return line
	}
	return append([]byte(shown), '\n')
}
