package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"mneme/backend"
	"mneme/internal/durable"
	"mneme/internal/quote"
	"mneme/internal/safepath"
	"mneme/session/conflict"
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

	Caller string `json:"caller,omitempty"` // in AWS: an ARN, as STS tells it
}

// claimSession claims a session for this process, until it ends or closes the file.
// errInUse when another process on this machine has it.
func claimSession(conflictsDir, session string) (*os.File, error) {
	root, err := safepath.NewRoot(filepath.Join(conflictsDir, sessionsName)).Make(0o700)
	if err != nil {
		return nil, fmt.Errorf("conflicts: %w; $%s names another directory", err, backend.ConflictsVariable)
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
			if err != nil && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) { // the lock is what counts
				return nil, errors.Join(fmt.Errorf("claim session %s: %w", session, err), f.Close())
			}
			return f, nil
		}
		_ = f.Close() // swept meanwhile
	}
}

// claimWanted claims a session that can write to one of the stores. A nil file is no claim.
func claimWanted(url *string, session string, wanted []wantedStore) (*os.File, error) {
	if allReadOnly(wanted) {
		return nil, nil
	}
	at, err := locate(url)
	if err != nil {
		return nil, err
	}
	if at.Check() != nil {
		return nil, nil // it cannot be opened either, and nothing is to be made there
	}
	dir, err := at.ConflictsDir()
	if err != nil {
		return nil, err
	}
	return claimSession(dir, session)
}

func claimName(session string) string {
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:16])
}

// writeClaim says in its file, in place of an earlier claim, that this process has a
// session.
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

// noteCaller adds to the mount's claim, beside its work, with whose credentials it
// works, where that can be told. It returns what gives that up, and waits for it.
func (c *mountCmd) noteCaller(ctx context.Context, lib *backend.Library, wanted []wantedStore) (end func()) {
	if allReadOnly(wanted) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var noting sync.WaitGroup
	noting.Go(func() {
		caller, err := lib.Caller(ctx)
		var conflicts string
		if err == nil {
			conflicts, err = lib.Location.ConflictsDir()
		}
		if err == nil && caller != "" {
			err = noteCaller(conflicts, c.Session, c.pid(), caller)
		}
		if err != nil {
			c.log.Debug("note whose credentials these are", "err", err)
		}
	})
	return func() {
		cancel()
		noting.Wait()
	}
}

// noteCaller adds to the claim that the mount of a process has on a session with whose
// credentials it works. A claim of another process is left alone.
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
	return errors.Join(err, f.Truncate(int64(len(text)))) // after, so that readers find a whole claim
}

// maxCaller is how long an ARN is at most, in bytes (IAM quotas).
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

// claimed says whose a session is.
func claimed(f *os.File, session string) error {
	of := "another process on this machine"
	var c claim
	text, err := safepath.ReadAll(f)
	if err == nil && json.Unmarshal(text, &c) == nil {
		of = fmt.Sprintf("process %d, of user %s, since %s", c.PID, printable(c.User), localTime(c.Since))
		if c.Caller != "" {
			of += ", with the credentials of " + quote.Name(c.Caller)
		}
	}
	return fmt.Errorf("session %s is %w by %s; a session is of one mount or process at a time: leave out --session, or choose another; with the token of a session, use one of another session", session, errInUse, of)
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
