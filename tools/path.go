package tools

import (
	"net/url"
	"slices"
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

// maxPath bounds what is looked at as a path, in bytes: more than any store takes, with
// the name of the store.
const maxPath = memory.MaxPathBytes + 512

// parsePath returns the names in a path of the tool, behind Root, in their canonical form.
// One slash at the end is nothing.
func (t Texts) parsePath(path string) ([]string, *Error) {
	rest, isBelow := strings.CutPrefix(path, Root)
	if !isBelow || rest != "" && rest[0] != '/' {
		return nil, failed(errkind.Invalid, t.say(outside, shown(path)))
	}
	if len(path) > maxPath {
		return nil, t.refusePath(path, memory.ErrPathTooLong)
	}
	rest = strings.TrimSuffix(strings.TrimPrefix(rest, "/"), "/")
	if rest == "" {
		if strings.HasSuffix(path, "//") {
			return nil, t.refusePath(path, errEmptyName)
		}
		return nil, nil
	}
	names := strings.Split(rest, "/")
	if slices.ContainsFunc(names, escapesName) {
		return nil, failed(errkind.Invalid, t.say(escapes, shown(path)))
	}
	for i, name := range names {
		canonical, err := memory.ParseName(name)
		if err != nil {
			return nil, t.refusePath(path, err)
		}
		names[i] = canonical
	}
	return names, nil
}

// refusePath is the error of a path that no memory can have.
func (t Texts) refusePath(path string, why error) *Error {
	return failed(errkind.Of(why), t.say(badPath, shown(path), why))
}

var errEmptyName = errkind.New(errkind.Invalid, "it has a slash too many")

// escapesName reports whether a name is one that leads out of its directory or hides that it
// does, as it is or once its percent escapes are decoded, however often. A name in which
// nothing is to be decoded may hold percent signs. Control characters that nothing hides are
// for memory.ParseName to name.
func escapesName(name string) bool {
	for first := true; ; first = false {
		if name == "." || name == ".." || strings.Contains(name, `\`) {
			return true
		}
		if !first && (strings.ContainsFunc(name, unicode.IsControl) || strings.Contains(name, "/") || hasOverlong(name)) {
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

// percentDecoded replaces what is a percent escape, and leaves other percent signs.
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
