package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"mneme/daemon"
	"mneme/internal/mountinfo"
)

// mountForUse mounts the store of a record in the background, with a keeper where the kernel has
// what that takes. The process that waits for the mount has the lock, too, so that nobody undoes
// what is about to be mounted when this one is killed.
func (u *useRecords) mountForUse(ctx context.Context, r *useRecord) error {
	mount := []string{"--url", r.URL, "--json", "mount", r.StoreID, "--flat", "--at", r.Mount, "--background"}
	if _, err := runSelf(ctx, u.lock, append(mount, "--keep")...); err == nil {
		return nil
	}
	_, err := runSelf(ctx, u.lock, mount...)
	return err
}

// unmountForUse ends the mount of a record, if it is there, and returns what that could not commit.
func unmountForUse(ctx context.Context, r *useRecord) ([]daemon.LeftFile, error) {
	m, found, err := mountedAt(r.Mount)
	switch {
	case err != nil || !found:
		return nil, err
	case m.Type != daemon.MountType:
		return nil, fmt.Errorf("%w: at %s is a mount that is not of mneme; unmount it, then again", errUndoHasWay, r.Mount)
	}
	out, err := runSelf(ctx, nil, "--json", "unmount", "--at", r.Mount)
	if err != nil {
		return nil, err
	}
	var said struct{ Kept []daemon.LeftFile }
	return said.Kept, json.Unmarshal(out, &said)
}

// mountedAt returns the topmost mount at a directory, without touching it.
func mountedAt(dir string) (m mountinfo.Mount, found bool, err error) {
	all, err := mountinfo.List()
	for _, one := range all {
		if one.Dir == dir {
			m, found = one, true
		}
	}
	return m, found, err
}

// runSelf runs this program with --json, and returns its output or its error. The process has a
// file open until it ends; nil is none.
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
	var reply errorReply
	if json.Unmarshal([]byte(lines[len(lines)-1]), &reply) == nil && reply.Error != nil {
		return nil, reply.Error
	}
	return nil, errors.Join(err, errors.New(strings.Join(lines, "; ")))
}
