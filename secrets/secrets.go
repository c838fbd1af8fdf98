// Package secrets finds credentials in texts by their shape: the prefix, the alphabet and the
// length that the service which issues them documents, and its checksum where it has one. It
// knows no words such as "password", asks no service whether a credential works, and needs no
// more than one pass over the text.
//
// A rule is one kind of credential. Names of rules stay what they are: people and programs
// read them.
//
// A text that looks like a credential but was plainly written by hand is none: the
// placeholders of documentation ("…EXAMPLE", "xxxx", an alphabet in its order).
package secrets

import "bytes"

// Finding is a credential in a text. It does not hold the credential.
type Finding struct {
	Rule   string `json:"rule"` // its name, see Rules
	Line   int    `json:"line"` // in which it begins; the first is 1
	Offset int    `json:"-"`    // bytes
	Length int    `json:"-"`    // bytes
	// Masked is what may be shown of it: at most four characters, which all credentials of
	// the rule begin with, and an ellipsis.
	Masked string `json:"masked"`
}

// Value returns the credential itself, a part of the text in which it was found.
func (f *Finding) Value(data []byte) []byte { return data[f.Offset : f.Offset+f.Length] }

// Find returns the first credentials in a text, at most so many, in the order in which they
// stand there. They do not overlap.
func Find(data []byte, most int) (found []Finding) {
	line, counted, last := 1, 0, 0
	for i := 0; i < len(data) && len(found) < most; {
		start := next(data, i)
		if start < 0 {
			break
		}
		r, before, length := match(data[last:], start-last)
		if length == 0 {
			i = start + 1
			continue
		}
		end := start + length
		start -= before
		line += bytes.Count(data[counted:start], newline)
		counted = start
		found = append(found, Finding{Rule: r.name, Line: line, Offset: start, Length: end - start, Masked: r.masked()})
		i, last = end, end
	}
	return found
}

var newline = []byte{'\n'}

// next returns the next place, at i or behind it, at which a credential may begin; -1: there
// is none. Few pairs of bytes begin one, and only where a word begins: behind an escape such
// as \n or \u003c, too.
func next(data []byte, from int) int {
	i := from
	if i > 0 && word[data[i-1]] {
		i += run(data[i:], &word, len(data))
		if at := inside(data, i); at >= from {
			return at
		}
	}
	for i+1 < len(data) {
		b, c := data[i], data[i+1]
		switch {
		case begins.has(b, c):
			return i
		case word[b]:
			begin := i
			for i++; i < len(data) && word[data[i]]; {
				i++
			}
			if i-begin < azureDevOps {
				continue
			}
			if at := inside(data, i); at >= from {
				return at
			}
		case b == '\\' && (c == 'n' || c == 't' || c == 'r'): // what JSON is full of
			i += 2
		case escapes[b]:
			i += max(1, escape(data[i:]))
		default:
			i++
		}
	}
	return -1
}

// inside returns where a prefix is that stands in the middle of a word which ends so; -1: there
// is none.
func inside(data []byte, end int) int {
	if end >= azureDevOps && string(data[end-8:end-4]) == "AZDO" {
		return end - 8
	}
	return -1
}

// match returns the rule of the credential whose prefix is at start, how much of it stands
// before that, and how long the rest is; 0: there is none.
func match(data []byte, start int) (r *rule, before, length int) {
	rest := data[start:]
	for i := first[rest[0]]; i < len(rules) && rules[i].prefix[0] == rest[0]; i++ {
		r := &rules[i]
		n := len(r.prefix)
		if len(rest) <= n || rest[n-1] != r.prefix[n-1] || string(rest[:n]) != r.prefix {
			continue
		}
		if length := r.length(rest); length > 0 {
			if r.before == nil {
				return r, 0, length
			}
			if before := r.before(data[:start]); before > 0 {
				return r, before, length
			}
		}
	}
	return nil, 0, 0
}

// Rules returns the names of all rules, each once.
func Rules() (names []string) {
	seen := map[string]bool{}
	for i := range rules {
		if name := rules[i].name; !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}
