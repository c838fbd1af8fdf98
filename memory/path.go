package memory

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"mneme/errkind"
	"mneme/internal/quote"
)

// The limits of a path.
const (
	MaxPathBytes = 1024 // of the whole path with its slashes, in NFC
	MaxSegments  = 20
	MaxNameBytes = 255 // of one segment: NAME_MAX of Linux file systems
)

// ReservedName is the name in a store's root below which a mount keeps its own
// files. No memory's path begins with it.
const ReservedName = ".mneme"

var (
	// ErrBadPath says that a path or name breaks a rule other than the two below.
	ErrBadPath = errkind.New(errkind.Invalid, "bad path")
	// ErrPathEncoding says that a path or name is not UTF-8.
	ErrPathEncoding = errkind.New(errkind.PathEncoding, "path is not UTF-8")
	// ErrPathTooLong says that a path, or a name in it, is too long or too deep.
	ErrPathTooLong = errkind.New(errkind.NameTooLong, "path is too long")
)

// PathError is an error about a path.
type PathError struct {
	Path string // as it was given
	Err  error  // what is wrong with it
}

func (e *PathError) Error() string { return "path " + quote.Name(e.Path) + ": " + e.Err.Error() }
func (e *PathError) Unwrap() error { return e.Err }

// CharacterError is an error about a character that a path or a name has: ErrBadPath.
type CharacterError struct {
	Name  string // the name, or the path
	Fault string // what is said of it: "has the character …"
}

func (e *CharacterError) Error() string {
	return fmt.Sprintf("%v: %s %s", ErrBadPath, quote.Name(e.Name), e.Fault)
}
func (e *CharacterError) Unwrap() error { return ErrBadPath }

func characterError(name, fault string, args ...any) error {
	return &CharacterError{name, fmt.Sprintf(fault, args...)}
}

// ParsePath returns the canonical form of a memory's path: "/" and 1 to 20
// segments, in NFC. It changes nothing but the normal form: a path with an
// empty, "." or ".." segment is an error that says so, never another path. Errors
// are PathErrors.
func ParsePath(path string) (string, error) {
	if !strings.HasPrefix(path, "/") {
		return "", &PathError{path, fmt.Errorf("%w: it must begin with /", ErrBadPath)}
	}
	if path == "/" {
		return "", &PathError{path, fmt.Errorf("%w: it names the store itself, want a memory such as /notes.md", ErrBadPath)}
	}
	segments := strings.Split(path[1:], "/")
	for i, segment := range segments {
		name, err := ParseName(segment)
		if err != nil {
			return "", &PathError{path, err}
		}
		segments[i] = name
	}
	clean := "/" + strings.Join(segments, "/")
	if err := CheckPath(clean); err != nil {
		return "", &PathError{path, err}
	}
	return clean, nil
}

// ParsePrefix is ParsePath for the path of a directory or of a memory, where
// "/" is the whole store and one trailing slash is allowed.
func ParsePrefix(path string) (string, error) {
	if path == "" || path == "/" {
		return "/", nil
	}
	return ParsePath(strings.TrimSuffix(path, "/"))
}

// parseAny is ParsePath for the path of a memory or, with a slash at its end, of a
// directory.
func parseAny(path string) (string, error) {
	dir, isDir := strings.CutSuffix(path, "/")
	if !isDir || dir == "" {
		return ParsePath(path)
	}
	dir, err := ParsePath(dir)
	return dir + "/", err
}

// Spelled returns spelling, if it is a form of path, of a memory or of a directory, in
// which a directory can list each name; else path. The text of a version's spelling may
// be anything.
func Spelled(path, spelling string) string {
	if spelling == "" || spelling == path {
		return path
	}
	if canonical, err := parseAny(spelling); err != nil || canonical != path {
		return path
	}
	for name := range strings.SplitSeq(spelling, "/") {
		if len(name) > MaxNameBytes {
			return path
		}
	}
	return spelling
}

// CheckPath checks the rules of a whole path whose segments went through
// ParseName.
func CheckPath(path string) error {
	if n := len(path); n > MaxPathBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrPathTooLong, n, MaxPathBytes)
	}
	if n := strings.Count(path, "/"); n > MaxSegments {
		return fmt.Errorf("%w: %d segments, at most %d", ErrPathTooLong, n, MaxSegments)
	}
	if path == "/"+ReservedName || strings.HasPrefix(path, "/"+ReservedName+"/") {
		return fmt.Errorf("%w: /%s is reserved for mneme's own files", ErrBadPath, ReservedName)
	}
	return nil
}

// CheckNew checks the rule that holds beyond ParsePath and ParseName for the path, or name,
// of a memory that does not exist yet: ErrBadPath when it has a character that real names
// do not have, since it shows as nothing, or as a space. Characters that are only rare, or
// unknown to this program, are allowed: other blanks, private characters, spaces at the
// ends. mneme shows such names with escapes. A name that consists of blanks is refused,
// since it is invisible.
func CheckNew(path string) error {
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if name != "" && strings.TrimFunc(name, unicode.IsSpace) == "" {
			return characterError(name, "is a name of blanks only, which cannot be seen; it needs another character")
		}
	}
	for i, r := range path {
		switch {
		case r < utf8.RuneSelf:
		case unicode.Is(unicode.Variation_Selector, r):
			if !quote.Selects(path, i) {
				return characterError(path, "has the invisible character %U where it selects nothing", r)
			}
		case quote.IsBlank(r):
			return characterError(path, "has the character %U, which cannot be seen", r)
		case unicode.Is(unicode.Noncharacter_Code_Point, r):
			return characterError(path, "has %U, which is no character", r)
		}
	}
	return nil
}

// ParseName returns the canonical form, NFC, of one segment of a path.
func ParseName(name string) (string, error) {
	switch {
	case name == "":
		return "", fmt.Errorf("%w: empty segment (a slash too many)", ErrBadPath)
	case name == "." || name == "..":
		return "", fmt.Errorf("%w: segment %q; write the path out from the store's root", ErrBadPath, name)
	case !utf8.ValidString(name):
		return "", fmt.Errorf("%w: %s", ErrPathEncoding, quote.Name(name))
	}
	for i, r := range name {
		if quote.IsJoiner(r) {
			if !quote.Joins(name, i) {
				return "", characterError(name, "has the invisible character %U where it joins nothing", r)
			}
			continue
		}
		if r == '/' || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return "", characterError(name, "has the character %U; control and format characters are not allowed", r)
		}
	}
	name = norm.NFC.String(name)
	if len(name) > MaxNameBytes {
		return "", fmt.Errorf("%w: a segment of %d bytes, at most %d", ErrPathTooLong, len(name), MaxNameBytes)
	}
	return name, nil
}
