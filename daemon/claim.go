package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"mneme/internal/durable"
	"mneme/internal/quote"
	"mneme/internal/safepath"
	"mneme/session/conflict"
)

// sessionsName is the directory of claims, in the directory of the stores' conflicts.
const sessionsName = "sessions"

// claim names the process that has mounted stores in the name of a session. It is a file
// that the process has locked while the mount lives. The file stays as long as a conflict
// does.
type claim struct {
	Session string    `json:"session"`
	UID     int       `json:"uid"`
	User    string    `json:"user"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"` // of the daemon, or its keeper
	Since   time.Time `json:"since"`

	Caller string `json:"caller,omitempty"` // in AWS: an ARN, as STS returns it
}

// ClaimDirError says that the directory of claims cannot be used.
type ClaimDirError struct{ Err error }

func (e *ClaimDirError) Error() string { return fmt.Sprintf("conflicts: %v", e.Err) }
func (e *ClaimDirError) Unwrap() error { return e.Err }

// Claim claims a session for this process, until it ends or closes the file. It returns
// ErrInUse if another process on this machine has the session.
func Claim(conflictsDir, session string) (*os.File, error) {
	root, err := safepath.NewRoot(filepath.Join(conflictsDir, sessionsName)).Make(0o700)
	if err != nil {
		return nil, &ClaimDirError{err}
	}
	defer root.Close()
	sweepClaims(root)
	name := claimName(session)
	for {
		f, locked, err := lockClaim(root, name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("claim session %s: %w", session, err)
		case !locked:
			return nil, errors.Join(claimed(f, session), f.Close())
		case isNamed(root, f, name):
			err := writeClaim(f, session)
			if err != nil && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) { // the lock is enough
				return nil, errors.Join(fmt.Errorf("claim session %s: %w", session, err), f.Close())
			}
			return f, nil
		}
		_ = f.Close() // another process swept it meanwhile
	}
}

func claimName(session string) string {
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:16])
}

// writeClaim writes to a claim's file, in place of an earlier claim, that this process
// has a session.
func writeClaim(f *os.File, session string) error {
	host, _ := os.Hostname()
	text, err := json.Marshal(claim{
		Session: session, UID: os.Geteuid(), User: loginName(), Host: host, PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Second),
	})
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	_, writeErr := f.WriteAt(append(text, '\n'), 0)
	return errors.Join(err, writeErr)
}

func loginName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// noteCaller adds the identity of the credentials to the claim of the mount of a process.
// It leaves a claim of another process as it is.
func noteCaller(conflictsDir, session string, pid int, caller string) error {
	root, err := safepath.OpenRoot(filepath.Join(conflictsDir, sessionsName))
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := safepath.OpenFile(root, claimName(session), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := safepath.ReadAll(f)
	if err != nil {
		return err
	}
	var c claim
	if err := json.Unmarshal(text, &c); err != nil || c.Session != session || c.PID != pid {
		return err
	}
	c.Caller = caller[:min(len(caller), maxCaller)]
	if text, err = json.Marshal(c); err != nil {
		return err
	}
	text = append(text, '\n')
	_, err = f.WriteAt(text, 0)
	return errors.Join(err, f.Truncate(int64(len(text)))) // last, so that readers find a whole claim
}

// maxCaller is the length of the longest ARN, in bytes (IAM quotas).
const maxCaller = 2048

// lockClaim opens the file of a claim, and locks it unless another process has.
func lockClaim(root *os.Root, name string) (f *os.File, locked bool, err error) {
	if f, err = safepath.OpenFile(root, name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, false, err
	}
	err = durable.TryLock(f)
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, errors.Join(err, f.Close())
	}
	return f, err == nil, nil
}

func isNamed(root *os.Root, f *os.File, name string) bool {
	mine, err := f.Stat()
	named, errNamed := root.Lstat(name)
	return err == nil && errNamed == nil && os.SameFile(mine, named)
}

// claimed is the error that names the holder of a session.
func claimed(f *os.File, session string) error {
	of := "another process on this machine"
	var c claim
	text, err := safepath.ReadAll(f)
	if err == nil && json.Unmarshal(text, &c) == nil {
		of = fmt.Sprintf("process %d, of user %s, since %s", c.PID, quote.Text(c.User), c.Since.Local().Format("2006-01-02 15:04:05"))
		if c.Caller != "" {
			of += ", with the credentials of " + quote.Name(c.Caller)
		}
	}
	return fmt.Errorf("session %s is %w by %s; a session is of one mount or process at a time: leave out --session, or choose another; with the token of a session, use one of another session", session, ErrInUse, of)
}

// sweepClaims removes the claims of mounts that ended longer ago than conflicts are kept.
// A claim that cannot be removed stays.
func sweepClaims(root *os.Root) {
	names, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return
	}
	for _, entry := range names {
		info, err := entry.Info()
		if err != nil || time.Since(info.ModTime()) < conflict.Life {
			continue
		}
		f, locked, err := lockClaim(root, entry.Name())
		if err != nil {
			continue
		}
		if locked {
			_ = root.Remove(entry.Name())
		}
		_ = f.Close()
	}
}
