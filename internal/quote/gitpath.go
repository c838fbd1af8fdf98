package quote

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// GitPath returns the path of a memory, without the slash before it, as it is in an export: a name
// that git takes for its own on any system, such as .git, begins with the escape of its first
// byte (%2Egit), and so does, with %25, one that would be taken for such an escape. The part after
// a backslash is a name, too, as it is on Windows.
func GitPath(path string) string {
	path = strings.TrimPrefix(path, "/")
	var b strings.Builder
	for path != "" {
		end := strings.IndexAny(path, `/\`)
		if end < 0 {
			end = len(path)
		}
		name := path[:end]
		if isGits(name) || isEscaped(name) {
			fmt.Fprintf(&b, "%%%02X%s", name[0], name[1:])
		} else {
			b.WriteString(name)
		}
		if end < len(path) {
			b.WriteByte(path[end])
			end++
		}
		path = path[end:]
	}
	return b.String()
}

// HasGits reports whether git takes a name in a path for its own.
func HasGits(path string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' }), isGits)
}

// isEscaped reports whether a name is one that GitPath makes.
func isEscaped(name string) bool {
	for strings.HasPrefix(name, "%25") {
		name = "%" + name[3:]
	}
	if len(name) < 3 || name[0] != '%' {
		return false
	}
	first, err := strconv.ParseUint(name[1:3], 16, 8)
	return err == nil && isGits(string(rune(first))+name[3:])
}

// gits are the names that git refuses, or reads for itself.
var gits = []string{".git", ".gitmodules", ".gitattributes", ".mailmap"}

// shortGits are the short names that NTFS may give those: of the beginning of the name or, where
// there are several such files, of a hash (is_ntfs_dot_generic in git's path.c).
var shortGits = regexp.MustCompile(`^(git|gitmod|gitatt|mailma|gi7e?b?a?|gi7d?2?9?|maba?3?0?)~[0-9]+$`)

// isGits reports whether git, on Linux, macOS or Windows, takes a name for its own: it
// refuses .git and ignores case, characters that HFS+ ignores, characters that NTFS ignores
// at the end, and short names of NTFS; and it reads .gitmodules, .gitattributes, and
// .mailmap, which maps the names of authors.
func isGits(name string) bool {
	name, _, _ = strings.Cut(name, ":") // a stream of NTFS
	name = strings.ToLower(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, name))
	name = strings.TrimRight(name, ". ")
	return slices.Contains(gits, name) || shortGits.MatchString(name)
}
