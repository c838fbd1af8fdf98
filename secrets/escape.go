package secrets

import "bytes"

// escapes are the bytes that an escape begins with.
var escapes = classOf("%%\\\\^^\x1b\x1b")

// escape returns how long the escape is that a text begins with, be it of JSON, of source code,
// of a URL or of a terminal; 0: it is none. A credential may stand right behind it.
func escape(text []byte) int {
	n, isEsc := 0, false
	switch text[0] {
	case '\x1b':
		n, isEsc = 1, true
	case '^':
		if bytes.HasPrefix(text, []byte("^[")) { // as cat -v shows it
			n, isEsc = 2, true
		}
	case '%':
		n, isEsc = escaped(text, 1, 2)
	case '\\':
		n, isEsc = backslash(text)
	}
	if !isEsc {
		return n
	}
	rest := text[n:]
	for _, bracket := range []string{"[", "%5B", "%5b"} {
		if bytes.HasPrefix(rest, []byte(bracket)) {
			return n + len(bracket) + control(rest[len(bracket):])
		}
	}
	if len(rest) > 1 && rest[0] == '(' { // a character set
		n += 2
	}
	return n
}

// backslash is escape for one that begins with a backslash, and reports whether it stands for
// the byte ESC.
func backslash(text []byte) (n int, isEsc bool) {
	if len(text) < 2 {
		return 0, false
	}
	switch text[1] {
	case 'n', 't', 'r', 'b', 'f', 'v', 'a':
		return 2, false
	case 'e':
		if len(text) > 2 && text[2] == '[' {
			return 2, true
		}
	case '0':
		n = 2 + run(text[2:], &octal, 2)
		return n, string(text[:n]) == `\033`
	case 'x':
		return escaped(text, 2, 2)
	case 'u':
		return escaped(text, 2, 4)
	case 'U':
		return escaped(text, 2, 8)
	}
	return 0, false
}

// escaped is escape for one of so many bytes and then so many hexadecimal digits.
func escaped(text []byte, mark, digits int) (n int, isEsc bool) {
	n = mark + digits
	if len(text) < n || !consistsOf(text[mark:n], &hex) {
		return 0, false
	}
	return n, bytes.EqualFold(bytes.TrimLeft(text[mark:n], "0"), []byte("1b"))
}

// control returns how long what follows ESC and a bracket is: parameters, and a last byte; see
// ECMA-48.
func control(rest []byte) int {
	const most = 64
	n := run(rest, &parameters, most)
	if n == most || n == len(rest) {
		return 0
	}
	return n + 1
}
