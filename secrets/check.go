package secrets

import (
	"bytes"
	stdbase64 "encoding/base64"
	"hash/crc32"
)

// whole returns the length of a body if it is one.
func whole(body []byte, isOne bool) int {
	if !isOne {
		return 0
	}
	return len(body)
}

// consistsOf reports whether all bytes of a text are of a class.
func consistsOf(text []byte, c *class) bool { return run(text, c, len(text)) == len(text) }

// parts is a check for two parts of these lengths with a separator between.
func parts(c *class, separator byte, a, b int) func([]byte) int {
	return func(body []byte) int {
		return whole(body, len(body) == a+1+b && body[a] == separator && consistsOf(body[:a], c) && consistsOf(body[a+1:], c))
	}
}

// named is a check for a body that begins with one of several names.
func named(names ...string) func([]byte) int {
	return func(body []byte) int {
		for _, name := range names {
			if bytes.HasPrefix(body, []byte(name)) {
				return len(body)
			}
		}
		return 0
	}
}

// containing is a check for a body with a mark in it.
func containing(mark string) func([]byte) int {
	return func(body []byte) int { return whole(body, bytes.Contains(body, []byte(mark))) }
}

// mixed is a check for a body that is no identifier: it has digits, and letters of both cases.
func mixed(body []byte) int {
	var digit, low, high bool
	for _, b := range body {
		digit = digit || '0' <= b && b <= '9'
		low = low || 'a' <= b && b <= 'z'
		high = high || 'A' <= b && b <= 'Z'
	}
	return whole(body, digit && low && high)
}

// numbered is a check for a body whose first part, up to a hyphen, is a number.
func numbered(body []byte) int {
	n := run(body, &digits, len(body))
	return whole(body, n > 0 && n < len(body) && body[n] == '-')
}

const base62Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// withChecksum is a check for a body whose last six bytes are the CRC-32 of the others, in
// base 62.
func withChecksum(body []byte) int {
	random, sum := body[:len(body)-6], body[len(body)-6:]
	crc := crc32.ChecksumIEEE(random)
	for i := len(sum) - 1; i >= 0; i-- {
		if sum[i] != base62Digits[crc%62] {
			return 0
		}
		crc /= 62
	}
	return len(body)
}

// assigned is a check for a key of so many bytes that is assigned to the name before it, be it
// behind an equals sign, a colon or the end of a tag.
func assigned(c *class, length int, check func([]byte) int) func([]byte) int {
	return func(rest []byte) int {
		n, assigns := 0, false
		for ; n < min(len(rest), maxAlign) && bytes.IndexByte([]byte(" \t\"'\\=:>"), rest[n]) >= 0; n++ {
			assigns = assigns || bytes.IndexByte([]byte("=:>"), rest[n]) >= 0
		}
		if !assigns || run(rest[n:], c, length+1) != length {
			return 0
		}
		if key := rest[n : n+length]; isPlaceholder(key) || check != nil && check(key) == 0 {
			return 0
		}
		return n + length
	}
}

// maxAlign is how many bytes stand between a name and what is assigned to it.
const maxAlign = 64

// filled is a check for base64 that was filled up at its end.
func filled(body []byte) int { return whole(body, bytes.HasSuffix(body, []byte("="))) }

// webhook is a check for the number and the token of a webhook of Discord.
func webhook(rest []byte) int {
	n := run(rest, &digits, 21)
	if n < 17 || n > 20 || len(rest) == n || rest[n] != '/' {
		return 0
	}
	token := run(rest[n+1:], &base64URL, 81)
	if token < 60 || token > 80 {
		return 0
	}
	return n + 1 + token
}

// discordBot checks the text after the first byte of three parts with dots between: the
// base64 of a number, a time, and a signature.
func discordBot(body []byte) int {
	number, rest, _ := bytes.Cut(body, []byte{'.'})
	at, signature, _ := bytes.Cut(rest, []byte{'.'})
	if len(number) < 22 || len(number) > 27 || len(at) != 6 || len(signature) < 27 || !consistsOf(signature, &base64URL) {
		return 0
	}
	decoded, err := stdbase64.RawURLEncoding.DecodeString(string(number[3:])) // the first byte goes with three others
	return whole(body, err == nil && consistsOf(decoded, &digits))
}

// telegramBot checks the text after the first digit of a number, a colon and 35 bytes, of
// which the first two are always the same.
func telegramBot(body []byte) int {
	number, token, _ := bytes.Cut(body, []byte{':'})
	return whole(body, consistsOf(number, &digits) && len(token) == 35 && token[0] == 'A' && token[1] == 'A' && consistsOf(token, &base64URL))
}

// jwt checks the text after the first bytes of a signed token: a header that names an
// algorithm, claims, and a signature, with dots between.
func jwt(body []byte) int {
	header, rest, _ := bytes.Cut(body, []byte{'.'})
	claims, signature, _ := bytes.Cut(rest, []byte{'.'})
	if !bytes.HasPrefix(claims, []byte("eyJ")) || len(signature) < 20 || !consistsOf(signature, &base64URL) {
		return 0
	}
	decoded, err := stdbase64.RawURLEncoding.DecodeString("eyJ" + string(header))
	if err != nil || !bytes.Contains(decoded, []byte(`"alg"`)) {
		return 0
	}
	decoded, err = stdbase64.RawURLEncoding.DecodeString(string(claims))
	return whole(body, err == nil && !bytes.Contains(decoded, []byte(`"1234567890"`))) // the one of all introductions
}

// The bounds of a key in armor, in bytes.
const (
	maxArmor    = 16 << 10
	maxLabel    = 40
	maxPreamble = 1024 // the lines before the key itself
	armorLine   = 40   // of the key, at least
)

// pem checks the text after the beginning of an armored key: the rest of a label that ends
// so, and at least one line of base64, be it in a string with \n in it.
func pem(label string) func([]byte) int {
	return func(rest []byte) int {
		n := bytes.Index(rest[:min(len(rest), maxLabel+5)], []byte("-----"))
		if n < 0 || !bytes.HasSuffix(rest[:n], []byte(label)) {
			return 0
		}
		n += 5
		length := keyIn(rest[n:min(len(rest), n+maxArmor)])
		if length == 0 {
			return 0
		}
		return n + length
	}
}

// keyIn returns where an armored key ends that begins here; 0: none does.
func keyIn(armor []byte) int {
	if end := bytes.Index(armor, []byte("-----")); end >= 0 {
		armor = armor[:end]
	}
	for i := 0; i < min(len(armor), maxPreamble); {
		n := run(armor[i:], &base64, len(armor))
		if n >= armorLine && !isPlaceholder(armor[i:i+n]) {
			return len(armor)
		}
		i += n + 1
	}
	return 0
}

// putty checks the text after the first word of a key of PuTTY: somewhere in it, the
// private part.
func putty(rest []byte) int {
	rest = rest[:min(len(rest), maxArmor)]
	at := bytes.Index(rest, []byte("Private-Lines:"))
	if at < 0 {
		return 0
	}
	length := keyIn(rest[at:])
	if length == 0 {
		return 0
	}
	return at + length
}
