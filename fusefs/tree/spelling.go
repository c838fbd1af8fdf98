package tree

import (
	"cmp"
	"errors"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"mneme/memory"
	"mneme/versionlog"
)

// A name with accents has several spellings, which are one file: the tree and the log know it by
// its NFC. Programs compare bytes: a program that copies from a Mac and then removes the names
// that it finds and did not copy must find the names that it made. A directory lists a name
//
//  1. as this mount has made it, or renamed it to, since the history last said how;
//  2. or else as the history says: its versions have the spelling of their paths;
//  3. where that is in NFC, as a lookup first spelled it here;
//  4. or else in NFC.
//
// For a file, the history's spelling is that of its own version. The same is true of a directory
// that the log has itself. A directory that memories imply is spelled as the newest version below
// it that says otherwise than NFC.

// SpellLocked notes how a program has made n, or renamed it to, or asks for it.
func (n *Entry) SpellLocked(name string) { n.setSpelling(Listable(n.name, name)) }

// setSpelling sets how a program spells n; a name of one form is spelled so.
func (n *Entry) setSpelling(spelling string) {
	if HasOneForm(n.name) {
		spelling = ""
	}
	if n.spelling != spelling {
		n.setAside().spelling = spelling
	}
}

// Listable is what a directory can list for a spelling of a name in NFC.
func Listable(canonical, name string) string {
	if HasOneForm(canonical) || len(name) > memory.MaxNameBytes {
		return canonical
	}
	return name
}

// ListedAsLocked is how n's directory lists it.
func (n *Entry) ListedAsLocked() string {
	if HasOneForm(n.name) {
		return n.name
	}
	return cmp.Or(n.spelling, n.spelledByHeadLocked(), n.name)
}

// spelledByHeadLocked is the spelling of a file's name that the log has; "": none but NFC.
func (n *Entry) spelledByHeadLocked() string {
	if n.head == nil || n.spelledInLog == "" {
		return ""
	}
	if path, ok := n.PathLocked(); ok {
		if _, name := Split(memory.Spelled(path, n.spelledInLog)); name != n.name {
			return name
		}
	}
	return ""
}

// AskedForLocked notes how a lookup spelled n, which is in dir, if listings must show that
// spelling.
func AskedForLocked(dir, n *Entry, name string) {
	if n.name == name || dir.tree == nil || n.spelling != "" || n.spelledByHeadLocked() != "" {
		return
	}
	n.SpellLocked(name)
	dir.tree.told.ListingLocked(dir)
}

// SpellingOfLocked is how path, which name has in n, is spelled by a version that makes it: as
// the directories are listed, and with name as it is; "" where it has one form only.
func (n *Entry) SpellingOfLocked(path, name string) string {
	if HasOneForm(path) {
		return ""
	}
	for dir := n; dir != dir.tree.root; dir = dir.parent {
		name = dir.ListedAsLocked() + "/" + name
	}
	return memory.Spelled(path, "/"+name)
}

// SpellingAtLocked is SpellingOfLocked of n and a path, if it is there.
func (n *Entry) SpellingAtLocked(path string) string {
	if HasOneForm(path) {
		return ""
	}
	if at, ok := n.PathLocked(); !ok || at != path {
		return ""
	}
	return n.parent.SpellingOfLocked(path, n.ListedAsLocked())
}

// spellDirsLocked spells a directory that v is in, or is of, and those above it as v does,
// where the log does not have them themselves by other versions.
func (t *Tree) spellDirsLocked(dir *Entry, v *versionlog.Version) {
	if v.Spelling == "" {
		return
	}
	path := strings.TrimSuffix(memory.Spelled(v.Path, v.Spelling), "/")
	if !v.IsDir() {
		path, _ = Split(path)
	}
	for ; dir != t.root; dir = dir.parent {
		var name string
		path, name = Split(path)
		name = Listable(dir.name, name)
		if (dir.marker == 0 || dir.marker == v.Seq) && name != dir.name && name != dir.spelling {
			dir.setSpelling(name)
			t.told.ListingLocked(dir.parent)
		}
	}
}

// HasOneForm reports whether a name in NFC is the only spelling of itself. The
// kernel takes two spellings for two names and would keep the one when the
// other is removed, so it is not to keep any.
func HasOneForm(name string) bool {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return norm.NFD.IsNormalString(name)
		}
	}
	return true
}

// IsTooLongLocked reports whether the path of a name in dir is longer, or deeper, than
// that of a memory may be.
func (n *Entry) IsTooLongLocked(name string) bool {
	if n.tree == nil {
		return false
	}
	path, ok := n.ChildPathLocked(name)
	return ok && errors.Is(memory.CheckPath(path), memory.ErrPathTooLong)
}
