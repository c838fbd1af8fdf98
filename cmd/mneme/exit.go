package main

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"mneme/cas"
	"mneme/conflict"
	"mneme/internal/awsconf"
	"mneme/internal/safepath"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/witness"
)

// class is a kind of failure: its exit code, and its name in JSON. Both are
// documented and stable.
type class struct {
	code int
	kind string
	errs []error
}

var (
	success = class{code: 0, kind: "ok"}
	failure = class{code: 1, kind: "error"}
)

// classes are looked through in order. Lost data comes first: a blob that is
// not found is damage, not a typing error.
var classes = []class{
	{code: 7, kind: "integrity", errs: []error{cas.ErrCorrupt, cas.ErrNotFound, versionlog.ErrCorrupt, versionlog.ErrRewritten, witness.ErrNote, errDamaged}},
	{code: 6, kind: "limit", errs: []error{
		memory.ErrTooBig, memory.ErrNotText, memory.ErrPathTooLong, versionlog.ErrTooLarge, versionlog.ErrQuota,
		syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.ENAMETOOLONG,
	}},
	{code: 5, kind: "denied", errs: []error{
		memory.ErrReadOnly, versionlog.ErrReadOnly, versionlog.ErrArchived, syscall.EROFS, fs.ErrPermission, safepath.ErrUntrusted,
	}},
	{code: 4, kind: "conflict", errs: []error{versionlog.ErrConflict, versionlog.ErrOverlap, versionlog.ErrExists, errMounted, errInUse}},
	{code: 3, kind: "not_found", errs: []error{versionlog.ErrNotFound, awsconf.ErrMissing, conflict.ErrNotFound}},
	{code: 2, kind: "usage", errs: []error{
		errUsage, memory.ErrBadName, memory.ErrBadLimits, memory.ErrBadPath, memory.ErrPathEncoding, memory.ErrBadVersion,
		versionlog.ErrInvalid, witness.ErrKey,
	}},
}

// classify finds the class of an error; nil is success.
func classify(err error) class {
	if err == nil {
		return success
	}
	var remote *errorJSON
	if errors.As(err, &remote) {
		return classOfKind(remote.Kind)
	}
	for _, c := range classes {
		for _, target := range c.errs {
			if errors.Is(err, target) {
				return c
			}
		}
	}
	return failure
}

func classOfKind(kind string) class {
	for _, c := range classes {
		if c.kind == kind {
			return c
		}
	}
	return failure
}

// errUsage is what every usageError is, under errors.Is.
var errUsage = errors.New("usage")

// usageError is a mistake in how mneme was called.
type usageError struct{ error }

func (e usageError) Is(target error) bool { return target == errUsage }
func (e usageError) Unwrap() error        { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
