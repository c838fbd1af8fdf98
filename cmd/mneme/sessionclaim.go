package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"mneme/conflict"
	"mneme/internal/durable"
	"mneme/internal/safepath"
)

// sessionsName is the directory of claims, beside the conflicts of the stores.
const sessionsName = "sessions"

// claim says who has mounted stores in the name of a session: what a mount calls
// itself, and what the system knows of it. It is a file that the process has locked
// for as long as the mount lives, and that stays as long as a conflict does.
type claim struct {
	Session string    `json:"session"`
	UID     int       `json:"uid"`
	User    string    `json:"user"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"` // of the daemon, or its keeper
	Since   time.Time `json:"since"`
}

// claimSession claims a session for this process, until it ends or closes the file.
// errInUse when another process on this machine has it.
func claimSession(conflictsDir, session string) (*os.File, error) {
	root, err := safepath.NewRoot(filepath.Join(conflictsDir, sessionsName)).Make(0o700)
	if err != nil {
		return nil, adviseConflicts(err)
	}
	defer root.Close()
	sweepClaims(root)
	sum := sha256.Sum256([]byte(session))
	name := hex.EncodeToString(sum[:16])
	for {
		f, locked, err := lockClaim(root, name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("claim session %s: %w", session, err)
		case !locked:
			return nil, errors.Join(claimed(f, session), f.Close())
		case isNamed(root, f, name):
			err := writeClaim(f, session)
			if err != nil && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) { // the lock is what counts
				return nil, errors.Join(fmt.Errorf("claim session %s: %w", session, err), f.Close())
			}
			return f, nil
		}
		_ = f.Close() // swept meanwhile
	}
}

// writeClaim says in its file, in place of an earlier claim, that this process has a
// session.
func writeClaim(f *os.File, session string) error {
	host, _ := os.Hostname()
	text, err := json.Marshal(claim{session, os.Geteuid(), loginName(), host, os.Getpid(), time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	_, writeErr := f.WriteAt(append(text, '\n'), 0)
	return errors.Join(err, writeErr)
}

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

// claimed says whose a session is.
func claimed(f *os.File, session string) error {
	of := "another mount on this machine"
	var c claim
	text, err := safepath.ReadAll(f)
	if err == nil && json.Unmarshal(text, &c) == nil {
		of = fmt.Sprintf("the mount of process %d, of user %s, since %s", c.PID, printable(c.User), localTime(c.Since))
	}
	return fmt.Errorf("session %s is %w by %s; each mount is one session: leave out --session, or choose another", session, errInUse, of)
}

// sweepClaims removes the claims of mounts that ended as long ago as conflicts are
// kept. What cannot be removed stays.
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
