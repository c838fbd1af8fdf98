package durable

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Space is how many bytes are free for users on the disk that a directory is on, and
// how many there are in all.
func Space(dir string) (free, total int64, err error) {
	var info unix.Statfs_t
	for {
		if err = unix.Statfs(dir, &info); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return 0, 0, fmt.Errorf("space on the disk of %s: %w", dir, err)
	}
	return int64(info.Bavail) * info.Frsize, int64(info.Blocks) * info.Frsize, nil
}
