package fusefs

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

func TestErrnoOf(t *testing.T) {
	lost := fmt.Errorf("read: %w", cas.ErrNotFound)
	for _, tc := range []struct {
		err  error
		want syscall.Errno
	}{
		{syscall.ENOTEMPTY, syscall.ENOTEMPTY},
		{lost, syscall.EIO},
		{fmt.Errorf("a name that exists: %w: %w", versionlog.ErrNotFound, lost), syscall.EIO},
		{fmt.Errorf("x: %w", cas.ErrCorrupt), syscall.EIO},
		{fmt.Errorf("x: %w", &versionlog.ConflictError{}), DefaultConflictErrno},
		{fmt.Errorf("x: %w", &versionlog.OverlapError{}), syscall.ENOTDIR},
		{&memory.SizeError{}, syscall.EFBIG},
		{&memory.TextError{}, syscall.EILSEQ},
		{fmt.Errorf("x: %w", memory.ErrPathTooLong), syscall.ENAMETOOLONG},
		{fmt.Errorf("x: %w", memory.ErrPathEncoding), syscall.EILSEQ},
		{fmt.Errorf("x: %w", memory.ErrBadPath), syscall.EINVAL},
		{fmt.Errorf("x: %w", memory.ErrReadOnly), syscall.EROFS},
		{fmt.Errorf("x: %w", versionlog.ErrArchived), syscall.EROFS},
		{fmt.Errorf("x: %w", versionlog.ErrTooLarge), syscall.EXDEV},
		{fmt.Errorf("x: %w", versionlog.ErrNotFound), syscall.ENOENT},
		{&fs.PathError{Err: syscall.ENOSPC}, syscall.ENOSPC},
		{&fs.PathError{Err: syscall.EDQUOT}, syscall.ENOSPC},
		{&fs.PathError{Err: syscall.EACCES}, syscall.EIO},
		{&fs.PathError{Err: syscall.ENOENT}, syscall.EIO},
		{fmt.Errorf("anything else"), syscall.EIO},
	} {
		if got := errnoOf(tc.err); got != tc.want {
			t.Errorf("errnoOf(%v) = %v, want %v", tc.err, got, tc.want)
		}
	}
}

// A line of .mneme/errors names its place once.
func TestFailNamesThePlaceOnce(t *testing.T) {
	r := newRig(t)
	size := &memory.SizeError{Path: "/d/a", Size: 3, Limit: 2}
	place, other := r.s.slug()+":/d/a", r.s.slug()+":/d/b"
	r.s.fail("write", "/d/a", size)
	r.s.fail("read", "/d/b", fmt.Errorf("%s: lost", other))
	r.s.fail("create", "a\x01", memory.ErrBadPath)
	r.s.fail("close", "/d/full", fmt.Errorf("the disk: %w", syscall.ENOSPC))
	r.options().Advise = func(err error) string {
		if errors.Is(err, versionlog.ErrQuota) {
			return "use less"
		}
		return ""
	}
	r.s.fail("close", "/d/much", versionlog.ErrQuota)
	lines := strings.Split(r.errorsSay(), "\n")
	for i, want := range []string{
		" write \"" + place + "\"" + strings.TrimPrefix(size.Error(), "/d/a") + " (file too large)",
		" read \"" + other + "\": lost (input/output error)",
		` create "a\x01": ` + memory.ErrBadPath.Error() + " (invalid argument)",
		` close "notes:/d/full": the disk: no space left on device`,
		` close "notes:/d/much": ` + versionlog.ErrQuota.Error() + "; use less (disk quota exceeded)",
	} {
		if _, got, _ := strings.Cut(lines[i], "Z"); got != want {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
}
