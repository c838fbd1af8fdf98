package secrets

import (
	"bytes"
	stdbase64 "encoding/base64"
)

// installation checks the text after the beginning of a token of an installation of an app
// of GitHub: a number, and a signed token.
func installation(body []byte) int {
	n := run(body, &digits, 20)
	token, is := bytes.CutPrefix(body[n:], []byte("_eyJ"))
	return whole(body, n > 0 && is && jwt(token) > 0)
}

// ending looks at a text for so many bytes of a class at its end.
func ending(c *class, length int) func([]byte) int {
	return func(text []byte) int {
		if len(text) < length || !consistsOf(text[len(text)-length:], c) {
			return 0
		}
		return length
	}
}

// azureDevOps is how long a token of Azure DevOps is, in bytes.
const azureDevOps = 84

// azureVersion checks the text before the mark of a client secret of Azure: three bytes,
// the digit of a version, and Q.
func azureVersion(text []byte) int {
	const length = 5
	if ending(&azure, length)(text) == 0 || !digits[text[len(text)-2]] || text[len(text)-1] != 'Q' {
		return 0
	}
	return length
}

// signature is a check for the 32 bytes in base64 with which Azure signs a URL, as it is or
// escaped for one.
func signature(rest []byte) int {
	n := 0
	for range 43 {
		switch escape := rest[n:min(len(rest), n+3)]; {
		case len(escape) > 0 && base64[escape[0]]:
			n++
		case bytes.EqualFold(escape, []byte("%2B")), bytes.EqualFold(escape, []byte("%2F")):
			n += 3
		default:
			return 0
		}
	}
	for _, end := range []string{"=", "%3D", "%3d"} {
		if bytes.HasPrefix(rest[n:], []byte(end)) {
			return n + len(end)
		}
	}
	return 0
}

// encodedPEM checks the text after the beginning of an armored key that is in base64 as a
// whole, in one line or in lines of the usual lengths.
func encodedPEM(rest []byte) int {
	text := []byte(encodedBegin)
	n, width := 0, 0
	for len(text) < maxArmor {
		line := run(rest[n:], &base64Pad, maxArmor)
		text = append(text, rest[n:n+line]...)
		n += line
		if width == 0 {
			line += len(encodedBegin)
			width = line
		}
		if line != width || width != 64 && width != 76 || n+1 >= len(rest) || rest[n] != '\n' || !base64[rest[n+1]] {
			break
		}
		n++
	}
	decoded, _ := stdbase64.StdEncoding.DecodeString(string(text)) // as far as it is base64
	label, is := bytes.CutPrefix(decoded, []byte("-----BEGIN "))
	return whole(rest[:n], is && (pem("PRIVATE KEY")(label) > 0 || pem("PRIVATE KEY BLOCK")(label) > 0))
}

// encodedBegin is what the base64 of an armored text begins with.
const encodedBegin = "LS0tLS1CRUdJTiB"
