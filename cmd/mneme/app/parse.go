package app

import (
	"os"
	"strings"

	"mneme/memory"
)

// ParseMemory reads the place of a memory.
func ParseMemory(text string) (Place, error) {
	p, err := splitPlace(text)
	if err != nil {
		return p, err
	}
	if p.Path == "" || p.id != "" && p.Path == "/" {
		store, version, _ := strings.Cut(p.Store, "@")
		if version != "" {
			version = "@" + version
		}
		return p, Usagef("%q names a store, want a memory in it such as %s:/todo.md%s%s", text, store, version, fileHint(text))
	}
	p.Path, err = memory.ParsePath(p.Path)
	return p, err
}

// ParseDir reads the place of a directory or of a memory. STORE alone is its root.
func ParseDir(text string) (Place, error) {
	p, err := splitPlace(text)
	if err != nil {
		return p, err
	}
	p.Path, err = memory.ParsePrefix(p.Path)
	return p, err
}

func splitPlace(text string) (Place, error) {
	if LooksLikePath(text) {
		return placeInMount(text)
	}
	if text == "" || strings.ContainsRune(".~", rune(text[0])) {
		return Place{}, Usagef("%q is not a place in a store; want STORE:/path such as notes:/todo.md", text)
	}
	store, path, hasPath := strings.Cut(text, ":")
	switch {
	case hasPath && strings.HasPrefix(path, "//"):
		return Place{}, Usagef("%q is a URL, and not a place in a store; give the URL by --url or MNEME_URL, and want STORE:/path such as notes:/todo.md", text)
	case store == "":
		return Place{}, Usagef("%q names no store; want STORE:/path such as notes%s", text, text)
	case !hasPath && strings.Contains(store, "/"):
		name, rest, _ := strings.Cut(store, "/")
		return Place{}, Usagef("%q has no colon after the store; want %s:/%s%s", text, name, rest, fileHint(text))
	case hasPath && !strings.HasPrefix(path, "/"):
		return Place{}, Usagef("%q has no / after the colon; want %s:/%s", text, store, path)
	}
	return Place{Store: store, Path: path}, nil
}

// fileHint is a hint for a text that is no place, but may be a file in a mount.
func fileHint(text string) string {
	if _, err := os.Lstat(text); err != nil {
		return ""
	}
	return ", or ./" + text + " for the file"
}
