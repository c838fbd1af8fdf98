package sqlitelog

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mneme/internal/testing/skip"
)

// TestReadOnlyDisk says why a log cannot be opened whose file system takes no writes.
func TestReadOnlyDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=700"); err != nil {
		skip.Because(t, "it takes the right to mount: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	l, err := Open(t.Context(), dir, nil)
	if err == nil {
		err = l.Close()
	}
	if err == nil {
		err = unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, opts := range []*Options{nil, {ReadOnly: true}} {
		if _, err := Open(t.Context(), dir, opts); !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "mount its file system for writing") {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}
