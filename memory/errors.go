package memory

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"mneme/cas"
	"mneme/errkind"
	"mneme/internal/quote"
	"mneme/versionlog"
)

var (
	// ErrTooBig matches every *SizeError, under errors.Is.
	ErrTooBig = errkind.New(errkind.TooLarge, "memory is too big")
	// ErrNotText matches every *TextError, under errors.Is.
	ErrNotText = errkind.New(errkind.NotText, "content is not UTF-8 text")
	// ErrReadOnly says that the store was opened for reading only.
	ErrReadOnly = errkind.New(errkind.ReadOnly, "open read-only")
	// ErrBadName says that a store's name or reference makes no sense.
	ErrBadName = errkind.New(errkind.Invalid, "bad store name")
	// errNoSlug is the ErrBadName of a name that has no letter or digit for a slug.
	errNoSlug = errkind.New(errkind.Invalid, "no slug")
	// ErrBadLimits says that a store's limits make no sense.
	ErrBadLimits = errkind.New(errkind.Invalid, "bad store limits")
	// ErrUntried says that a commit failed before the log has looked at it, so
	// that it is certainly not in the log.
	ErrUntried = versionlog.ErrUntried
	// ErrNoStore says that no store has the given id, slug or name. It is a
	// versionlog.ErrNotFound, under errors.Is.
	ErrNoStore error = noStore{}
	// ErrBadVersion says that a version cannot be used for the request.
	ErrBadVersion = errkind.New(errkind.Invalid, "version does not fit")
)

// noStore is a versionlog.ErrNotFound that does not say so twice.
type noStore struct{}

func (noStore) Error() string { return versionlog.ErrNotFound.Error() }
func (noStore) Unwrap() error { return versionlog.ErrNotFound }

// VersionRefError says that a text cannot name a version of a memory. It is an
// ErrBadVersion, under errors.Is.
type VersionRefError struct{ Store, Path, Ref string }

// Error describes a valid reference.
func (e *VersionRefError) Error() string {
	return fmt.Sprintf("%v: %s; want a version id (memver_…) or a sequence number", ErrBadVersion, quote.Name(e.Ref))
}

// Unwrap returns ErrBadVersion.
func (e *VersionRefError) Unwrap() error { return ErrBadVersion }

// NoVersionError says that a memory has no version that fits a reference. It is a
// versionlog.ErrNotFound, under errors.Is.
type NoVersionError struct {
	Store, Path, Ref string   // Ref is a version id or a sequence number
	Newest           []uint64 // the sequence numbers of existing versions, the newest first
}

// Error names existing versions.
func (e *NoVersionError) Error() string {
	at := ""
	if _, err := strconv.ParseUint(e.Ref, 10, 64); err == nil {
		at = "at sequence "
	}
	return fmt.Sprintf("%s:%s: version %s%s: %v; the newest are at %s", e.Store, e.Path, at, e.Ref, versionlog.ErrNotFound, e.Have())
}

// Have returns Newest as a text.
func (e *NoVersionError) Have() string {
	words := make([]string, len(e.Newest))
	for i, seq := range e.Newest {
		words[i] = strconv.FormatUint(seq, 10)
	}
	return strings.Join(words, ", ")
}

// Unwrap returns versionlog.ErrNotFound.
func (e *NoVersionError) Unwrap() error { return versionlog.ErrNotFound }

// SizeError says that a memory would be longer than its store allows.
type SizeError struct {
	Path        string
	Size, Limit int64 // bytes
	Partial     bool  // Size is how far the writing came: perhaps there was more
}

// Error gives size and limit.
func (e *SizeError) Error() string {
	atLeast := ""
	if e.Partial {
		atLeast = "at least "
	}
	return fmt.Sprintf("%s: %s%d bytes, but a memory of this store holds at most %d; split it into several files", e.Path, atLeast, e.Size, e.Limit)
}

// Is makes every *SizeError an ErrTooBig.
func (e *SizeError) Is(target error) bool { return target == ErrTooBig }

// Kind is errkind.TooLarge.
func (e *SizeError) Kind() errkind.Kind { return errkind.TooLarge }

// TextError says where content stops being UTF-8.
type TextError struct {
	Path   string
	Offset int // of the first byte that is not UTF-8
}

// Error gives the place.
func (e *TextError) Error() string {
	return fmt.Sprintf("%s: byte %d is not UTF-8; this store holds text only (a store made with --content any takes any bytes)", e.Path, e.Offset)
}

// Is makes every *TextError an ErrNotText.
func (e *TextError) Is(target error) bool { return target == ErrNotText }

// Kind is errkind.NotText.
func (e *TextError) Kind() errkind.Kind { return errkind.NotText }

// ChangeError says which change of a commit the error is of, that comes before the log is asked. Its text
// is that of Err: only a caller that has numbered the changes for a person names the number.
type ChangeError struct {
	Index int // from 0
	Err   error
}

// Error is the text of Err.
func (e *ChangeError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ChangeError) Unwrap() error { return e.Err }

// IsFinal reports whether a commit that ended with err is certainly not in the log.
func IsFinal(err error) bool { return errkind.Of(err).Final() || errors.Is(err, ErrUntried) }

// IsLost reports whether err says that the store does not have a content that it should.
func IsLost(err error) bool { return errors.Is(err, cas.ErrNotFound) || errors.Is(err, cas.ErrCorrupt) }
