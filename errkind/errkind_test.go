package errkind

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

type typed struct{}

func (typed) Error() string { return "typed" }
func (typed) Kind() Kind    { return Overlap }

func TestOf(t *testing.T) {
	lost, gone := New(Corrupt, "lost"), New(NotFound, "gone")
	for _, test := range []struct {
		err  error
		want Kind
	}{
		{nil, None},
		{errors.New("x"), Unknown},
		{lost, Corrupt},
		{fmt.Errorf("a: %w", fmt.Errorf("b: %w", gone)), NotFound},
		{fmt.Errorf("%w: %w", gone, lost), Corrupt}, // whichever stands first
		{fmt.Errorf("%w: %w", lost, gone), Corrupt},
		{errors.Join(nil, typed{}, errors.New("x")), Overlap},
		{&fs.PathError{Op: "open", Err: syscall.ENOSPC}, NoSpace},
		{&fs.PathError{Op: "open", Err: syscall.ENOENT}, Unknown},
		{fmt.Errorf("x: %w", fs.ErrPermission), Denied},
		{syscall.EACCES, Denied},
		{syscall.EROFS, Denied}, // of the disk: a commit may have been made before
	} {
		if got := Of(test.err); got != test.want {
			t.Errorf("%v: %v, want %v", test.err, got, test.want)
		}
	}
}

// TestSystemIsNotFinal: whatever the operating system says, a commit may have been made.
func TestSystemIsNotFinal(t *testing.T) {
	for errno := syscall.Errno(1); errno < 200; errno++ {
		if k := Of(errno); k.Final() {
			t.Errorf("%v is %v, which is final", errno, k)
		}
	}
}

// TestKinds: every kind has a name of its own; one that may be settled otherwise is not
// final, and none that says the request is wrong is worth another try.
func TestKinds(t *testing.T) {
	names := map[string]bool{}
	for _, k := range All() {
		if k.String() == "" || names[k.String()] {
			t.Errorf("kind %d has the name %q", k, k)
		}
		names[k.String()] = true
	}
	for _, k := range []Kind{Corrupt, NoSpace, Denied, Missing, Unavailable, Unknown} {
		if k.Final() {
			t.Errorf("%v is final, though the commit may be in the history", k)
		}
	}
	for _, k := range []Kind{Invalid, Conflict, NotFound, TooLarge, Rewritten} {
		if k.Retryable() {
			t.Errorf("%v is worth another try", k)
		}
	}
}
