package tools

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"mneme/errkind"
	"mneme/internal/quote"
	"mneme/memory"
)

// Root is where a tool has its memories.
const Root = "/memories"

// PathName returns what a session is to call the memories of a store, in its texts
// (session.Options.Name); several says whether the tool has other stores, too.
func PathName(slug string, several bool) func(path string) string {
	top := topOf(slug, several)
	return func(path string) string { return quote.Text(join(top, path)) }
}

// topOf returns the path of a store.
func topOf(slug string, several bool) string {
	if several {
		return Root + "/" + slug
	}
	return Root
}

// join returns the path in the tool of a path in a store.
func join(top, path string) string { return top + strings.TrimSuffix(path, "/") }

// maxPath bounds the bytes of a path: more than any store takes, with the name of the
// store.
const maxPath = memory.MaxPathBytes + 512

// parsePath returns the names in a path of the tool, behind Root, in their canonical form.
// One slash at the end is nothing. The first odd of them may be taken only where they are
// there: one looks as if it led out of its directory once something decodes it. Nothing here
// does, and another program may have given that name.
func (t Texts) parsePath(path string) (names []string, odd int, e *Error) {
	rest, isBelow := strings.CutPrefix(path, Root)
	if !isBelow || rest != "" && rest[0] != '/' {
		return nil, 0, failed(errkind.Invalid, t.say(outside, shown(path)))
	}
	if len(path) > maxPath {
		return nil, 0, t.refusePath(path, memory.ErrPathTooLong)
	}
	rest = strings.TrimSuffix(strings.TrimPrefix(rest, "/"), "/")
	if rest == "" {
		if strings.HasSuffix(path, "//") {
			return nil, 0, t.refusePath(path, errEmptyName)
		}
		return nil, 0, nil
	}
	names = strings.Split(rest, "/")
	for i, name := range names {
		if name == "." || name == ".." {
			return nil, 0, t.escape(path)
		}
		if escapesName(name) {
			odd = i + 1
		}
	}
	for i, name := range names {
		canonical, err := memory.ParseName(name)
		if err != nil && odd > 0 {
			return nil, 0, t.escape(path)
		}
		if err != nil {
			return nil, 0, t.refusePath(path, err)
		}
		names[i] = canonical
	}
	return names, odd, nil
}

// unshown returns the names that a listing shows so, with escapes; nil: there are none.
func unshown(shown []string) []string {
	names := make([]string, len(shown))
	for i, name := range shown {
		var b strings.Builder
		for rest := name; rest != ""; {
			r, _, tail, err := strconv.UnquoteChar(rest, 0)
			if err != nil {
				return nil
			}
			b.WriteRune(r)
			rest = tail
		}
		canonical, err := memory.ParseName(b.String())
		if err != nil || quote.Text(canonical) != name {
			return nil
		}
		names[i] = canonical
	}
	return names
}

// escape is the error of a path that leads out of Root, or looks as if it did.
func (t Texts) escape(path string) *Error {
	return failed(errkind.Invalid, t.say(escapes, shown(path)))
}

// refusePath is the error of a path that no memory can have.
func (t Texts) refusePath(path string, why error) *Error {
	return failed(errkind.Of(why), t.say(badPath, shown(path), why))
}

var errEmptyName = errkind.New(errkind.Invalid, "it has a slash too many")

// escapesName reports whether a name is one that leads out of its directory or hides that it
// does, as it is or once its percent escapes are decoded, however often. A name without
// percent escapes may hold percent signs.
func escapesName(name string) bool {
	for {
		if name == "." || name == ".." || strings.ContainsAny(name, `/\`) || strings.ContainsFunc(name, unicode.IsControl) || hasOverlong(name) {
			return true
		}
		decoded := percentDecoded(name)
		if decoded == name {
			return false
		}
		name = decoded
	}
}

// hasOverlong reports whether a name has a byte with which longer forms of ASCII begin that
// UTF-8 does not have.
func hasOverlong(name string) bool {
	return strings.IndexByte(name, 0xc0) >= 0 || strings.IndexByte(name, 0xc1) >= 0
}

// percentDecoded replaces percent escapes, and leaves other percent signs.
func percentDecoded(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		if name[i] == '%' && i+3 <= len(name) {
			if one, err := url.PathUnescape(name[i : i+3]); err == nil {
				b.WriteString(one)
				i += 3
				continue
			}
		}
		b.WriteByte(name[i])
		i++
	}
	return b.String()
}
