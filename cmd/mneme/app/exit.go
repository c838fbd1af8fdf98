package app

import (
	"errors"
	"fmt"

	"mneme/errkind"
)

// class is the exit code of a failure, and its name in JSON. Both are documented and
// stable.
type class struct {
	Code int
	name string
}

var (
	success   = class{0, "ok"}
	failure   = class{1, "error"}
	Usage     = class{2, "usage"}
	notFound  = class{3, "not_found"}
	conflicts = class{4, "conflict"}
	denied    = class{5, "denied"}
	limit     = class{6, "limit"}
	integrity = class{7, "integrity"}
)

// classes are the classes of kinds of errors. Any other kind is failure.
var classes = map[errkind.Kind]class{
	errkind.None:            success,
	errkind.Rewritten:       integrity,
	errkind.Corrupt:         integrity,
	errkind.NoSpace:         limit,
	errkind.OverQuota:       limit,
	errkind.TooLarge:        limit,
	errkind.TooMany:         limit,
	errkind.NameTooLong:     limit,
	errkind.NotText:         limit,
	errkind.Fenced:          denied,
	errkind.ReadOnly:        denied,
	errkind.Archived:        denied,
	errkind.Policy:          denied,
	errkind.Unauthenticated: denied,
	errkind.Denied:          denied,
	errkind.Conflict:        conflicts,
	errkind.Overlap:         conflicts,
	errkind.Exists:          conflicts,
	errkind.InUse:           conflicts,
	errkind.NotFound:        notFound,
	errkind.Missing:         notFound,
	errkind.PathEncoding:    Usage,
	errkind.Invalid:         Usage,
}

// Classify finds the class of an error; nil is success.
func Classify(err error) class {
	var remote *errorJSON
	if errors.As(err, &remote) {
		return classNamed(remote.Kind)
	}
	if c, ok := classes[errkind.Of(err)]; ok {
		return c
	}
	return failure
}

func classNamed(name string) class {
	for _, c := range classes {
		if c.name == name {
			return c
		}
	}
	return failure
}

// ErrNotYet says that something erased is still left somewhere.
var ErrNotYet = errors.New("not all of it is erased: what is left where, and what is in the way, stands behind NOT YET (\"left\" in JSON); do what it says, and run the command again")

// Usagef returns an error about how mneme was called.
func Usagef(format string, args ...any) error {
	return errkind.Wrap(errkind.Invalid, fmt.Errorf(format, args...))
}

// ErrDamaged says that fsck found problems.
var ErrDamaged = errkind.New(errkind.Corrupt, "the store is damaged")

// ErrorReply is an error as --json writes it, and as a daemon sends it to the process that
// started it.
type ErrorReply struct {
	Error *errorJSON `json:"error"`
}

// errorJSON is the error of this mneme process or of another one.
type errorJSON struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

func (e *errorJSON) Error() string { return e.Message }

// NewErrorReply returns an error with its kind and its advice.
func NewErrorReply(err error) ErrorReply {
	return ErrorReply{&errorJSON{Kind: Classify(err).name, Message: WithAdvice(err)}}
}
