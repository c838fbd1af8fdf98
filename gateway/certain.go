package gateway

import (
	"errors"
	"fmt"

	"mneme/errkind"
	"mneme/gateway/wire"
	"mneme/versionlog"
)

// changing are the operations that change something.
var changing = map[string]bool{
	wire.OpCreateStore: true, wire.OpDeleteStore: true, wire.OpCommit: true, wire.OpPutBlob: true, wire.OpPurge: true, wire.OpForget: true,
}

// certain returns the error of a call as one that says no more of a change than is known:
//
//   - The credential has no right to it, and no attempt of this call may have had one: it was not made by
//     this call, and the store is read-only (deniedError).
//   - The server processed no attempt, and the change was not requested before: it was not made
//     (versionlog.Untried).
//   - The server may have received an earlier attempt, and did not process the last one: whatever the
//     reason, the change may have been made (doubtfulError). A blob is put again all the same.
//
// An earlier attempt is one of this call or, if a commit's key is not new, of an earlier call.
//
// The server's answer about a change that it has processed holds, also for the earlier attempts.
func certain(r *request, err error) error {
	if err == nil || !changing[r.op] {
		return err
	}
	remote, told := errors.AsType[*wire.RemoteError](err)
	heard := r.repeated || r.op == wire.OpCommit && !r.fresh
	switch untried := isUntried(err); {
	case told && remote.NoRight && !r.repeated:
		return deniedError{remote}
	case untried && !heard && r.fresh:
		return versionlog.Untried(err)
	case heard && (untried || !told) && errkind.Of(err).Final() && r.op != wire.OpPutBlob:
		return &doubtfulError{err}
	}
	return err
}

// isUntried reports whether the server has not processed the change that an attempt asks
// for.
func isUntried(err error) bool {
	if _, unsent := errors.AsType[unsentError](err); unsent {
		return true
	}
	remote, told := errors.AsType[*wire.RemoteError](err)
	return told && remote.Untried
}

// unsentError is the error of an attempt that was not sent.
type unsentError struct{ error }

// Unwrap returns the error itself.
func (e unsentError) Unwrap() error { return e.error }

// deniedError is the error of a change for which the credential has no right: the store is
// read-only to it.
type deniedError struct{ *wire.RemoteError }

// Unwrap has it be a versionlog.ErrReadOnly.
func (e deniedError) Unwrap() []error { return []error{versionlog.ErrReadOnly, e.RemoteError} }

// doubtfulError is an error that does not say whether a change was made. Only its text has
// the cause.
type doubtfulError struct{ err error }

// Error says what is not known.
func (e *doubtfulError) Error() string {
	return fmt.Sprintf("the answer to an attempt was lost, and then: %v", e.err)
}

// Kind is errkind.Unavailable.
func (e *doubtfulError) Kind() errkind.Kind { return errkind.Unavailable }
