package mcp

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// scheme is that of the URIs of memories: mneme://STORE/path, with the names of the path
// percent-encoded; mneme://STORE/ is the store itself.
const scheme = "mneme://"

// uriOf returns the URI of a path in a store.
func uriOf(slug, path string) string {
	names := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, name := range names {
		names[i] = url.PathEscape(name)
	}
	return scheme + slug + "/" + strings.Join(names, "/")
}

// parseURI returns the store and the path in it that a URI names, "" for the store itself. It
// takes what uriOf returns, and other spellings of the same names. Whether a path can be one
// of a memory is not its concern.
func parseURI(uri string) (slug, path string, valid bool) {
	rest, isOurs := strings.CutPrefix(uri, scheme)
	slug, rest, hasPath := strings.Cut(rest, "/")
	if !isOurs || !hasPath || slug == "" || strings.ContainsFunc(uri, isNotOfURI) {
		return "", "", false
	}
	if rest == "" {
		return slug, "", true
	}
	names := strings.Split(rest, "/")
	for i, name := range names {
		decoded, err := url.PathUnescape(name)
		if err != nil || decoded == "" || strings.Contains(decoded, "/") || !utf8.ValidString(decoded) {
			return "", "", false
		}
		names[i] = decoded
	}
	return slug, "/" + strings.Join(names, "/"), true
}

// isNotOfURI reports whether a character must not be in a URI, or begins a part that the
// URIs of memories do not have.
func isNotOfURI(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`{|}?#", r)
}
