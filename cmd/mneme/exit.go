package main

import (
	"errors"
	"fmt"

	"mneme/errkind"
)

// class is what a failure looks like: its exit code, and its name in JSON. Both are
// documented and stable.
type class struct {
	code int
	name string
}

var (
	success   = class{0, "ok"}
	failure   = class{1, "error"}
	usage     = class{2, "usage"}
	notFound  = class{3, "not_found"}
	conflicts = class{4, "conflict"}
	denied    = class{5, "denied"}
	limit     = class{6, "limit"}
	integrity = class{7, "integrity"}
)

// classes are those of the kinds of errors; of any other it is failure.
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
	errkind.PathEncoding:    usage,
	errkind.Invalid:         usage,
}

// classify finds the class of an error; nil is success.
func classify(err error) class {
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

// errNotYet says that something of what was erased is still there.
var errNotYet = errors.New("not all of it is erased: what is left where, and what is in the way, stands behind NOT YET (\"left\" in JSON); do what it says, and run the command again")

// usagef returns an error about how mneme was called.
func usagef(format string, args ...any) error {
	return errkind.Wrap(errkind.Invalid, fmt.Errorf(format, args...))
}
