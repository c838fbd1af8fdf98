package versionlog

import "strings"

// dirOf returns the directory that a path lies in, with its slash.
func dirOf(path string) string {
	return path[:strings.LastIndexByte(strings.TrimSuffix(path, "/"), '/')+1]
}

// directoriesInTheWay returns the conflicts of changes that want a directory to be
// absent which memories imply: one that is made, and one that another is renamed to. It
// also notes which directories that are to be made are there already and stay.
func (b *builder) directoriesInTheWay(changes []Change) ([]Conflict, error) {
	var conflicts []Conflict
	freed := map[string]bool{}
	for _, c := range changes {
		if c.Action == Remove || c.Action == Rename {
			freed[c.Path] = true
		}
	}
	b.staying = map[string]bool{}
	for _, c := range changes {
		path := c.Path
		if c.Action == Rename {
			path = c.To
		}
		if !isDir(path) || c.Action == Remove || b.heads[path] != nil {
			continue
		}
		below, err := b.below(path, freed)
		switch {
		case err != nil:
			return nil, err
		case below == nil:
		case c.Action == Rename:
			conflicts = append(conflicts, Conflict{Path: path, Expected: ExpectAbsent(), Head: below})
		case c.Expect.kind == expectAbsent:
			conflicts = append(conflicts, Conflict{Path: path, Expected: c.Expect, Head: below})
		default:
			b.staying[path] = true
		}
	}
	return conflicts, nil
}

// staysBelow returns something that lies below a path and is not freed by the commit,
// or nil.
func (b *builder) staysBelow(path string) (*Version, error) { return b.below(path, b.leaving) }

func (b *builder) below(path string, freed map[string]bool) (*Version, error) {
	for below, err := range b.view.Below(strings.TrimSuffix(path, "/")) {
		if err != nil {
			return nil, err
		}
		if below.Path != path && !freed[below.Path] {
			return &below, nil
		}
	}
	return nil, nil
}
