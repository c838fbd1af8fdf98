package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"mneme/adopt"
	"mneme/cmd/mneme/app"
	"mneme/daemon"
)

// mountForUse mounts the store of a record in the background, with a keeper if the kernel
// supports it. The process that waits for the mount also holds the lock, so that no process
// undoes the adoption if this one is killed.
func mountForUse(records *adopt.Records) func(context.Context, *adopt.Record) error {
	return func(ctx context.Context, r *adopt.Record) error {
		mount := []string{"--url", r.URL, "--json", "mount", r.StoreID, "--flat", "--at", r.Mount, "--background"}
		if _, err := runSelf(ctx, records.Lock, append(mount, "--keep")...); err == nil {
			return nil
		}
		_, err := runSelf(ctx, records.Lock, mount...)
		return err
	}
}

// unmountForUse ends the mount of a record, if it exists, and returns the files that could
// not be committed.
func unmountForUse(ctx context.Context, r *adopt.Record) ([]daemon.LeftFile, error) {
	m, found, err := adopt.MountedAt(r.Mount)
	switch {
	case err != nil || !found:
		return nil, err
	case m.Type != daemon.MountType:
		return nil, fmt.Errorf("%w: at %s is a mount that is not of mneme; unmount it, then again", adopt.ErrUndoHasWay, r.Mount)
	}
	out, err := runSelf(ctx, nil, "--json", "unmount", "--at", r.Mount)
	if err != nil {
		return nil, err
	}
	var said struct{ Kept []daemon.LeftFile }
	return said.Kept, json.Unmarshal(out, &said)
}

// runSelf runs this program with --json, and returns its output or its error. The process
// keeps file open until it ends; file may be nil.
func runSelf(ctx context.Context, file *os.File, args ...string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = &stderr
	if file != nil {
		cmd.ExtraFiles = []*os.File{file}
	}
	out, err := cmd.Output()
	if err == nil {
		return out, nil
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	var reply app.ErrorReply
	if json.Unmarshal([]byte(lines[len(lines)-1]), &reply) == nil && reply.Error != nil {
		return nil, reply.Error
	}
	return nil, errors.Join(err, errors.New(strings.Join(lines, "; ")))
}
