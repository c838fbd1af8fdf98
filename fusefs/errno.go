package fusefs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/errkind"
	"mneme/versionlog"
)

// DefaultConflictErrno is what a call gets whose write lost a race. Every
// language has a name for it; Node's libuv calls ESTALE "Unknown system error
// -116". And the kernel does not repeat a call for it, as it does for ESTALE.
const DefaultConflictErrno = syscall.EBUSY

// errnos maps each kind of error to the errno that a program sees in the mount. Kinds that are
// not in it mean trouble with the store itself, and become EIO: above all lost data, since the
// name exists and must not look like a missing file.
var errnos = map[errkind.Kind]syscall.Errno{
	errkind.Rewritten:    syscall.EROFS,
	errkind.Fenced:       syscall.EROFS,
	errkind.NoSpace:      syscall.ENOSPC,
	errkind.OverQuota:    syscall.EDQUOT,
	errkind.TooLarge:     syscall.EFBIG,
	errkind.TooMany:      syscall.EXDEV,
	errkind.NameTooLong:  syscall.ENAMETOOLONG,
	errkind.NotText:      syscall.EILSEQ,
	errkind.ReadOnly:     syscall.EROFS,
	errkind.Archived:     syscall.EROFS,
	errkind.Policy:       syscall.EPERM,
	errkind.Conflict:     DefaultConflictErrno,
	errkind.Overlap:      syscall.ENOTDIR,
	errkind.NotFound:     syscall.ENOENT,
	errkind.PathEncoding: syscall.EILSEQ,
	errkind.Invalid:      syscall.EINVAL,
}

// errnoOf translates an error. An errno that this package chose stands for itself; one
// that comes from below with a message around it is of a kind.
func errnoOf(err error) syscall.Errno {
	if errno, ok := err.(syscall.Errno); ok {
		return errno
	}
	if errno, ok := errnos[errkind.Of(err)]; ok {
		return errno
	}
	return syscall.EIO
}

// fail answers a request with err's errno, and notes the error where people
// and agents find it.
func (s *store) fail(op, path string, err error) fuse.Status {
	if errors.Is(err, context.Canceled) && s.fs.ctx.Err() == nil { // by whom the request is
		return fuse.EINTR
	}
	errno := errnoOf(err)
	if isConflict(err) {
		errno = s.fs.opts.ConflictErrno
	}
	text := s.withAdvice(s.located(path, err), err)
	if !strings.HasSuffix(text, errno.Error()) {
		text += fmt.Sprintf(" (%v)", errno)
	}
	s.errors.Add(path, op+" "+text)
	if errno == syscall.EIO || errors.Is(err, versionlog.ErrInvalid) { // the latter is a mistake of mneme's
		s.fs.log.Error("request failed", "store", s.slug(), "op", op, "path", path, "err", err)
	}
	return fuse.Status(errno)
}

// withAdvice adds to the text of an error what can be done about it.
func (s *store) withAdvice(text string, err error) string {
	if s.fs.opts.Advise != nil {
		if advice := s.fs.opts.Advise(err); advice != "" {
			text += "; " + advice
		}
	}
	return text
}

// located is an error and the place that it is about, once.
func (s *store) located(path string, err error) string {
	place, text := path, strings.TrimPrefix(err.Error(), path+": ")
	if strings.HasPrefix(path, "/") {
		place = s.slug() + ":" + path
	}
	return place + ": " + strings.TrimPrefix(text, place+": ")
}
