// Package errkind gives every error one of a few kinds. The form of an error for others (an
// errno, an exit code, an answer over a protocol) is a table over kinds; whether it can be
// retried is a property of its kind.
//
// Packages declare their errors with New, or give their error types a method Kind.
package errkind

import (
	"io/fs"
	"syscall"
)

// Kind is a kind of error. The list is closed, and in the order of how much is at stake:
// of an error that wraps others, the first kind counts.
type Kind int

// The kinds.
const (
	None            Kind = iota // no error
	Rewritten                   // acknowledged history is missing, or another one is there
	Corrupt                     // data is damaged, or missing though it was stored
	Fenced                      // the commit is of an epoch that is over
	NoSpace                     // the disk is full, or nearly
	OverQuota                   // the writer or the store has used up its quota
	TooLarge                    // a memory is larger than its store takes
	TooMany                     // there are more changes than one commit takes
	NameTooLong                 // a path, or a part of one, is longer than it may be
	NotText                     // what should be text is not UTF-8
	ReadOnly                    // it was opened for reading only
	Archived                    // the store is archived
	Policy                      // the store's policy does not let it in, as it is
	Denied                      // the caller may not do that
	Unauthenticated             // there is no credential, or none that counts
	Conflict                    // what was to be replaced is not what was expected
	Overlap                     // a path would lie below another memory's path
	Exists                      // the name is taken
	InUse                       // another process is using it
	NotFound                    // there is no such store, memory, version or conflict
	Missing                     // what a backend stands on is not there, such as its bucket
	Newer                       // the data was written by a newer mneme
	Unsupported                 // this backend cannot do that
	PathEncoding                // a path is not UTF-8
	Invalid                     // the request contradicts itself, or the rules
	Unavailable                 // it does not answer, or not in time
	Unknown                     // any other
)

// kinds are their names and properties, by kind.
var kinds = [...]struct {
	name      string
	final     bool
	retryable bool
}{
	None:            {name: "none"},
	Rewritten:       {name: "rewritten", final: true},
	Corrupt:         {name: "corrupt"},
	Fenced:          {name: "fenced", final: true},
	NoSpace:         {name: "no_space", retryable: true},
	OverQuota:       {name: "over_quota", final: true, retryable: true},
	TooLarge:        {name: "too_large", final: true},
	TooMany:         {name: "too_many", final: true},
	NameTooLong:     {name: "name_too_long", final: true},
	NotText:         {name: "not_text", final: true},
	ReadOnly:        {name: "read_only", final: true},
	Archived:        {name: "archived", final: true},
	Policy:          {name: "policy", final: true},
	Denied:          {name: "denied"},
	Unauthenticated: {name: "unauthenticated"},
	Conflict:        {name: "conflict", final: true},
	Overlap:         {name: "overlap", final: true},
	Exists:          {name: "exists", final: true},
	InUse:           {name: "in_use", final: true, retryable: true},
	NotFound:        {name: "not_found", final: true},
	Missing:         {name: "missing", retryable: true},
	Newer:           {name: "newer", final: true},
	Unsupported:     {name: "unsupported", final: true},
	PathEncoding:    {name: "path_encoding", final: true},
	Invalid:         {name: "invalid", final: true},
	Unavailable:     {name: "unavailable", retryable: true},
	Unknown:         {name: "unknown"},
}

// String returns its name, in snake case.
func (k Kind) String() string { return kinds[k].name }

// Final reports whether a commit that ended with such an error is certainly not in the
// history. After any other error it may be, and the same proposal settles which.
func (k Kind) Final() bool { return kinds[k].final }

// Retryable reports whether the same request may succeed later, though the caller
// changes nothing about it.
func (k Kind) Retryable() bool { return kinds[k].retryable }

// All returns the kinds of errors, in their order.
func All() []Kind {
	all := make([]Kind, 0, len(kinds))
	for k := Rewritten; int(k) < len(kinds); k++ {
		all = append(all, k)
	}
	return all
}

// New returns an error to compare with, of a kind.
func New(k Kind, text string) error { return &sentinel{k, text} }

// Wrap returns err, with its text, as an error of a kind.
func Wrap(k Kind, err error) error { return wrapped{k, err} }

type wrapped struct {
	kind Kind
	error
}

func (w wrapped) Kind() Kind    { return w.kind }
func (w wrapped) Unwrap() error { return w.error }

type sentinel struct {
	kind Kind
	text string
}

func (s *sentinel) Error() string { return s.text }
func (s *sentinel) Kind() Kind    { return s.kind }

// Of returns the kind of an error, by itself and all that it wraps.
func Of(err error) Kind {
	if err == nil {
		return None
	}
	k := own(err)
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		if wrapped := err.Unwrap(); wrapped != nil {
			k = min(k, Of(wrapped))
		}
	case interface{ Unwrap() []error }:
		for _, wrapped := range err.Unwrap() {
			if wrapped != nil {
				k = min(k, Of(wrapped))
			}
		}
	}
	return k
}

// own is the kind of an error without what it wraps.
func own(err error) Kind {
	switch err := err.(type) {
	case interface{ Kind() Kind }:
		return err.Kind()
	case syscall.Errno:
		return ofErrno(err)
	}
	if err == fs.ErrPermission {
		return Denied
	}
	return Unknown
}

// ofErrno is the kind of an errno of the operating system about the store's own files. A
// commit that ends with one may be in the history. Only the caller that looked for a
// missing file knows its meaning.
func ofErrno(errno syscall.Errno) Kind {
	switch errno {
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
		return NoSpace
	case syscall.EACCES, syscall.EPERM, syscall.EROFS:
		return Denied
	}
	return Unknown
}
