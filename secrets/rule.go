package secrets

import "bytes"

// rule is one shape of credentials: a prefix, then a body.
type rule struct {
	name   string
	prefix string
	body   *class // what the body consists of; nil: check alone decides
	min    int    // bytes of the body
	max    int    // likewise; 0: maxBody
	// check looks closer at what follows the prefix: the body or, where body is nil, the
	// rest of the text. It returns how long the body is; 0: it is none.
	check func(body []byte) int
	// before looks at the text up to the prefix, of a rule whose prefix stands in the middle of
	// a credential. It returns how much of it belongs to the credential; 0: it is none.
	before func(text []byte) int
	// given says that check alone decides whether a body is a placeholder.
	given bool
}

// maxBody bounds how long a body is, in bytes.
const maxBody = 8192

// length returns how long the credential is that a text with the prefix begins with; 0: it is
// none.
func (r *rule) length(text []byte) int {
	rest := text[len(r.prefix):]
	n := len(rest)
	if r.body != nil {
		most := r.max
		if most == 0 {
			most = maxBody
		}
		n = run(rest, r.body, most+1)
		for n > 0 && rest[n-1] == '.' { // of the sentence
			n--
		}
		if n < r.min || n > most {
			return 0
		}
	}
	if r.check != nil {
		if n = r.check(rest[:n]); n == 0 {
			return 0
		}
	}
	if !r.given && isPlaceholder(rest[:n]) {
		return 0
	}
	return len(r.prefix) + n
}

// masked returns what may be shown of a credential.
func (r *rule) masked() string {
	if r.before != nil {
		return "…"
	}
	return r.prefix[:min(4, len(r.prefix))] + "…"
}

// fewest is how many different characters a credential has at least. One of 16 that are drawn
// from 32 has fewer once in some ten thousand times.
const fewest = 7

// isPlaceholder reports whether a person has made up a body.
func isPlaceholder(body []byte) bool {
	var seen class
	different, steps := 0, 0
	for i, b := range body {
		if !seen[b] {
			seen[b] = true
			different++
		}
		if i > 0 && b == body[i-1]+1 { // as in abcdef and 123456
			steps++
		}
	}
	if different < fewest || steps*3 > len(body) {
		return true
	}
	if len(body) > 512 { // so long that it holds one of the words by chance
		return false
	}
	lower := bytes.ToLower(body)
	for _, made := range placeholders {
		if bytes.Contains(lower, made) {
			return true
		}
	}
	return false
}

var placeholders = [][]byte{
	[]byte("example"), []byte("xxxxx"), []byte("placeholder"), []byte("redacted"), []byte("changeme"), []byte("your-"), []byte("your_"),
	[]byte("yourtoken"), []byte("yourkey"), []byte("00000000"), []byte("....."),
}
