package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"mneme/errkind"
	"mneme/versionlog"

	"github.com/ncruces/go-sqlite3"
)

// ErrBusy says that another process held the log for longer than a caller
// waits, 10 seconds.
var ErrBusy = errkind.New(errkind.Unavailable, "another process holds the log")

// busyTimeout is how long a lock is waited for. Tests shorten it.
var busyTimeout = 10 * time.Second

const (
	busyMinSleep = 200 * time.Microsecond
	busyMaxSleep = 10 * time.Millisecond
)

// errLocked is a refusal of SQLite that is worth another attempt.
var errLocked = errors.New("database is locked")

// retryBusy calls attempt until it is not refused for a lock, or busyTimeout
// has passed, or ctx ends.
func retryBusy(ctx context.Context, attempt func() error) error {
	return retryBusyFor(ctx, busyTimeout, attempt)
}

// retryBusyFor is retryBusy for a caller that has waited for a part of busyTimeout.
func retryBusyFor(ctx context.Context, left time.Duration, attempt func() error) error {
	var deadline time.Time
	for sleep := busyMinSleep; ; sleep = min(2*sleep, busyMaxSleep) {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := attempt()
		if !errors.Is(err, errLocked) {
			return err
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(left)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w for more than %v: %w", ErrBusy, busyTimeout, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(sleep):
		}
	}
}

// translate turns an error of SQLite into one that callers know.
func translate(err error) error {
	var code sqlite3.ErrorCode
	if !errors.As(err, &code) {
		return err
	}
	if errors.Is(err, sqlite3.IOERR_SHMSIZE) { // the index of the write-ahead log could not grow
		return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
	}
	if errors.Is(err, sqlite3.READONLY_DIRECTORY) { // it was writable when it was opened
		return fmt.Errorf("the file system of %s has gone read-only: %w: %w", DatabaseName, syscall.EIO, err)
	}
	switch code {
	case sqlite3.BUSY, sqlite3.PROTOCOL:
		return fmt.Errorf("%w: %w", errLocked, err)
	case sqlite3.FULL:
		return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
	case sqlite3.IOERR:
		return fmt.Errorf("%w: %w", syscall.EIO, err)
	case sqlite3.CORRUPT, sqlite3.NOTADB:
		return fmt.Errorf("%s: %w: %w", DatabaseName, versionlog.ErrCorrupt, err)
	case sqlite3.CANTOPEN:
		return fmt.Errorf("%s: %w", DatabaseName, err)
	case sqlite3.READONLY:
		return fmt.Errorf("%w: %w", versionlog.ErrReadOnly, err)
	}
	return err
}

// isConstraint reports whether a unique constraint refused a row.
func isConstraint(err error) bool { return errors.Is(err, sqlite3.CONSTRAINT) }

// isCutOff reports whether there is a transaction that a process which may write must roll back
// first: of the kind that only a database without a write-ahead log has.
func isCutOff(err error) bool { return errors.Is(err, sqlite3.READONLY_ROLLBACK) }
