package gitstream

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Name returns the path of a memory, without the slash before it, as git gets it: a name
// that git takes for its own on any system, such as .git, begins with the escape of its first
// byte (%2Egit), and so does, with %25, one that would be taken for such an escape. What
// follows a backslash is a name, too, as it is on Windows.
func Name(path string) string {
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

// isEscaped reports whether a name is one that Name makes.
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

// isGits reports whether git, on Linux, macOS or Windows, takes a name for its own: it
// refuses .git and ignores case, characters that HFS+ ignores, what NTFS ignores at the end,
// and short names of NTFS; and it reads .gitmodules, .gitattributes, and
// .mailmap, which says who the authors are.
func isGits(name string) bool {
	name, _, _ = strings.Cut(name, ":") // a stream of NTFS
	name = strings.ToLower(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, name))
	name = strings.TrimRight(name, ". ")
	if name == ".gitignore" || name == ".gitkeep" {
		return false
	}
	return slices.ContainsFunc([]string{".git", "git~", "gitmod~", "gitatt~", "gi7eba~", "gi7d29~", ".mailmap", "mailma~", "maba30~"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}
