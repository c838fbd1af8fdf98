package versionlog

import (
	"errors"
	"fmt"
	"strings"

	"mneme/errkind"
)

var (
	// ErrNotFound says that a store, a head or a version does not exist.
	ErrNotFound = errkind.New(errkind.NotFound, "not found")
	// ErrExists says that a store's id or slug is taken.
	ErrExists = errkind.New(errkind.Exists, "exists already")
	// ErrConflict matches every *ConflictError, under errors.Is.
	ErrConflict = errkind.New(errkind.Conflict, "conflict")
	// ErrOverlap matches every *OverlapError, under errors.Is.
	ErrOverlap = errkind.New(errkind.Overlap, "path overlaps another memory's path")
	// ErrArchived says that the store takes removals only.
	ErrArchived = errkind.New(errkind.Archived, "archived; it can only be read, and removed from")
	// ErrReadOnly says that the log was opened for reading only.
	ErrReadOnly = errkind.New(errkind.ReadOnly, "log is open read-only")
	// ErrReplica says that the store is a copy, which takes commits by Import only.
	ErrReplica = errkind.New(errkind.ReadOnly, "a replica; it takes the commits of the store that it copies, and no others")
	// ErrFenced says that a proposal, or a commit to import, is of an epoch that is over.
	ErrFenced = errkind.New(errkind.Fenced, "another copy of the store was promoted")
	// ErrTooLarge says that a proposal has more changes than fit one commit.
	ErrTooLarge = errkind.New(errkind.TooMany, "too many changes for one commit")
	// ErrInvalid says that a proposal contradicts itself or the history.
	ErrInvalid = errkind.New(errkind.Invalid, "invalid proposal")
	// ErrFormat says that the data was written by a newer mneme.
	ErrFormat = errkind.New(errkind.Newer, "format is newer than this mneme understands")
	// ErrRewritten says that the history behind a log went back, or was replaced:
	// it lacks commits that were acknowledged, and takes no others.
	ErrRewritten = errkind.New(errkind.Rewritten, "acknowledged history is missing")
	// ErrCorrupt says that the log's own data does not agree with itself.
	ErrCorrupt = errkind.New(errkind.Corrupt, "log is corrupt")
	// ErrUntried says, in addition to another error of Commit, that the proposal was fresh and
	// was not tried, so that no commit of its key is in the history.
	ErrUntried = errors.New("not committed")
)

// untriedError is an error that is ErrUntried, too.
type untriedError struct{ error }

// Untried returns an error that is both ErrUntried and err.
func Untried(err error) error { return untriedError{err} }

// Unwrap returns the error itself.
func (e untriedError) Unwrap() error { return e.error }

// Is makes it an ErrUntried.
func (e untriedError) Is(target error) bool { return target == ErrUntried }

// ConflictError says which expectations did not hold, and has the current heads.
type ConflictError struct {
	StoreID   string     `json:"store_id"`
	Conflicts []Conflict `json:"conflicts"` // at least one
}

// ConflictAt returns the head at a path for which the expectation of a commit did not hold,
// from the commit's error. A nil head is no memory; false is another error.
func ConflictAt(err error, path string) (head *Version, ok bool) {
	var lost *ConflictError
	if !errors.As(err, &lost) {
		return nil, false
	}
	for _, c := range lost.Conflicts {
		if c.Path == path {
			return c.Head, true
		}
	}
	return nil, false
}

// Conflict is one expectation that did not hold.
type Conflict struct {
	Path     string
	Expected Expectation
	Head     *Version // the current head; nil when there is none
}

// Error describes every conflict.
func (e *ConflictError) Error() string {
	var b strings.Builder
	for i, c := range e.Conflicts {
		if i > 0 {
			b.WriteString("; ")
		}
		have := "there is no memory"
		if c.Head != nil {
			have = fmt.Sprintf("the head is version %s (sequence %d, by %q)", c.Head.ID, c.Head.Seq, c.Head.Actor)
		}
		fmt.Fprintf(&b, "%s: expected %s, but %s", c.Path, c.Expected, have)
	}
	return b.String()
}

// Is makes every *ConflictError an ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Kind is errkind.Conflict.
func (e *ConflictError) Kind() errkind.Kind { return errkind.Conflict }

// OverlapError says that Path cannot be a memory because another live memory's
// path lies above or below it.
type OverlapError struct {
	Path string
	With Version // the zero Version when both paths stand in one proposal
}

// Error names both paths.
func (e *OverlapError) Error() string {
	if isDir(e.Path) && e.With.Path != "" {
		return fmt.Sprintf("%s: the directory is not empty, it holds %q", e.Path, e.With.Path)
	}
	if e.With.Path == "" {
		return fmt.Sprintf("%s: another path of the same commit lies above it", e.Path)
	}
	if strings.HasPrefix(e.Path, e.With.Path+"/") {
		return fmt.Sprintf("%s: %q is a memory, not a directory", e.Path, e.With.Path)
	}
	return fmt.Sprintf("%s: is a directory, it holds %q", e.Path, e.With.Path)
}

// Is makes every *OverlapError an ErrOverlap.
func (e *OverlapError) Is(target error) bool { return target == ErrOverlap }

// Kind is errkind.Overlap.
func (e *OverlapError) Kind() errkind.Kind { return errkind.Overlap }
