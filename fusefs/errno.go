package fusefs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// errnos is what every error looks like to a program that uses the mount. The
// first that matches counts. Lost data comes first: the name exists, so it must
// not look like a missing file.
var errnos = []struct {
	err   error
	errno syscall.Errno
}{
	{cas.ErrNotFound, syscall.EIO},
	{cas.ErrCorrupt, syscall.EIO},
	{versionlog.ErrRewritten, syscall.EROFS}, // also where it says that a record is damaged
	{versionlog.ErrCorrupt, syscall.EIO},
	{memory.ErrReadOnly, syscall.EROFS},
	{versionlog.ErrReadOnly, syscall.EROFS},
	{versionlog.ErrArchived, syscall.EROFS},
	{memory.ErrTooBig, syscall.EFBIG},
	{memory.ErrNotText, syscall.EILSEQ},
	{memory.ErrPathEncoding, syscall.EILSEQ},
	{memory.ErrPathTooLong, syscall.ENAMETOOLONG},
	{memory.ErrBadPath, syscall.EINVAL},
	{versionlog.ErrTooLarge, syscall.EXDEV},
	{versionlog.ErrOverlap, syscall.ENOTDIR},
	{versionlog.ErrConflict, DefaultConflictErrno},
	{versionlog.ErrQuota, syscall.EDQUOT},
	{syscall.ENOSPC, syscall.ENOSPC},
	{syscall.EDQUOT, syscall.EDQUOT},
	{versionlog.ErrNotFound, syscall.ENOENT},
}

// errnoOf translates an error. An errno that this package chose stands for
// itself; one that comes from below with a message around it is trouble with
// the store's own files, and EIO unless the table has it. So is all else.
func errnoOf(err error) syscall.Errno {
	if errno, ok := err.(syscall.Errno); ok {
		return errno
	}
	for _, e := range errnos {
		if errors.Is(err, e.err) {
			return e.errno
		}
	}
	return syscall.EIO
}

// fail answers a request with err's errno, and notes the error where people
// and agents find it.
func (s *store) fail(op, path string, err error) fuse.Status {
	errno := errnoOf(err)
	if isConflict(err) {
		errno = s.fs.opts.ConflictErrno
	}
	text := s.located(path, err)
	if s.fs.opts.Advise != nil {
		if advice := s.fs.opts.Advise(err); advice != "" {
			text += "; " + advice
		}
	}
	if !strings.HasSuffix(text, errno.Error()) {
		text += fmt.Sprintf(" (%v)", errno)
	}
	s.errors.add(path, op+" "+text)
	if errno == syscall.EIO {
		s.fs.log.Error("request failed", "store", s.slug(), "op", op, "path", path, "err", err)
	}
	return fuse.Status(errno)
}

// located is an error and the place that it is about, once.
func (s *store) located(path string, err error) string {
	place, text := path, strings.TrimPrefix(err.Error(), path+": ")
	if strings.HasPrefix(path, "/") {
		place = s.slug() + ":" + path
	}
	return place + ": " + strings.TrimPrefix(text, place+": ")
}
