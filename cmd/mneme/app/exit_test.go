package app

import (
	"fmt"
	"syscall"
	"testing"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// TestClassify holds the documented exit codes. Each error is wrapped, as all
// that reach main are.
func TestClassify(t *testing.T) {
	for _, test := range []struct {
		err  error
		code int
	}{
		{cas.ErrNotFound, 7}, {cas.ErrCorrupt, 7}, {versionlog.ErrCorrupt, 7},
		{fmt.Errorf("%w: %w", versionlog.ErrNotFound, cas.ErrNotFound), 7}, // lost data is never a mere "not found"
		{&memory.SizeError{}, 6}, {&memory.TextError{}, 6}, {memory.ErrPathTooLong, 6}, {versionlog.ErrTooLarge, 6}, {syscall.ENOSPC, 6},
		{memory.ErrReadOnly, 5}, {versionlog.ErrReadOnly, 5}, {versionlog.ErrArchived, 5}, {syscall.EACCES, 5}, {syscall.EROFS, 5},
		{&versionlog.ConflictError{}, 4}, {&versionlog.OverlapError{}, 4}, {versionlog.ErrExists, 4},
		{versionlog.ErrNotFound, 3},
		{Usagef("x"), 2}, {memory.ErrBadPath, 2}, {memory.ErrPathEncoding, 2}, {memory.ErrBadName, 2}, {memory.ErrBadLimits, 2}, {memory.ErrBadVersion, 2},
		{versionlog.ErrFormat, 1}, {syscall.EIO, 1},
		{&errorJSON{Kind: "denied"}, 5}, {&errorJSON{Kind: "from the future"}, 1},
	} {
		if got := Classify(fmt.Errorf("wrapped: %w", test.err)).Code; got != test.code {
			t.Errorf("%v: exit code %d, want %d", test.err, got, test.code)
		}
	}
	if got := Classify(nil).Code; got != 0 {
		t.Errorf("no error: exit code %d", got)
	}
}
