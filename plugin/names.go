package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"mneme/memory"
)

// maxName bounds the name that an id becomes, in bytes.
const maxName = 120

// hashedName matches texts that end as the names of ids that cannot be used as names.
var hashedName = regexp.MustCompile(`-[0-9a-f]{32}$`)

// severalMarks matches hyphens and dots that are neighbours.
var severalMarks = regexp.MustCompile(`[-.]{2,}`)

// nameOf returns the name that the id of a thread or turn, which is not empty, has in a path.
// Ids of letters, digits and "-_.@+=" that begin with neither dot nor hyphen are names by
// themselves. Any other becomes a name that such an id never is: what names are not to have is a
// hyphen, it is cut, and at its end is half of its SHA-256. So two ids are two names.
func nameOf(id string) string {
	name := strings.Map(func(r rune) rune {
		if r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || strings.ContainsRune("-_.@+=", r)) {
			return r
		}
		return '-'
	}, id)
	if name == id && len(id) <= maxName && id[0] != '.' && id[0] != '-' && !hashedName.MatchString(id) && isName(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	hash := "-" + hex.EncodeToString(sum[:16])
	name = strings.Trim(severalMarks.ReplaceAllString(name, "-"), "-.")
	name = cutBytes(name, maxName-len(hash))
	if name == "" {
		name = "id"
	}
	if canonical, err := memory.ParseName(name + hash); err == nil && memory.CheckNew(canonical) == nil && len(canonical) <= memory.MaxNameBytes-len(".md") {
		return canonical
	}
	return "id" + hash
}

// isName reports whether a name is one that a memory may have, as it is.
func isName(name string) bool {
	canonical, err := memory.ParseName(name)
	return err == nil && canonical == name && memory.CheckNew(name) == nil
}

// cutBytes returns the beginning of s of at most so many bytes, which ends with a character.
func cutBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// pathOf returns where a turn is remembered.
func pathOf(thread, turn string) string {
	return "/threads/" + nameOf(thread) + "/" + nameOf(turn) + ".md"
}
