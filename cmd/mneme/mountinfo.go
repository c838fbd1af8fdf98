package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mneme/internal/mountinfo"
)

// What mountinfo says of mneme's mounts: their type, and their source, which has the daemon's
// process id, see fusefs.Source.
const (
	mountType    = "fuse.mneme"
	sourcePrefix = "mneme:"
	sourceFlat   = ":flat"
	fuseDevice   = "/dev/fuse"
)

// mountPoint is a mount of mneme on this machine.
type mountPoint struct {
	id    int // of the mount
	dir   string
	root  string // what of the file system is seen there: "/", or a part that is bound to another place
	pid   int    // of the daemon; 0 when the mount does not say
	minor string // of the device, the number of the FUSE connection
	uid   int    // of the user who mounted it; -1 when the mount does not say
	flat  bool   // it is one store, whose root is the mount's
}

// ended reports whether a process has exited and only waits for its parent to
// ask how, see proc_pid_stat(5). Nobody but root may look at its files.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X")
}

// alive reports whether the daemon still runs. A process that was given its
// number later, or has it in this namespace, does not have the FUSE device open for
// this connection, where one may look. Nor is it the daemon if another user runs it:
// the number is what whoever mounted it says.
func (m mountPoint) alive() bool {
	proc := fmt.Sprintf("/proc/%d", m.pid)
	if !ownedBy(proc, m.uid) {
		return false
	}
	fds, err := os.ReadDir(proc + "/fd")
	if err != nil {
		return errors.Is(err, fs.ErrPermission) && !ended(m.pid)
	}
	return slices.ContainsFunc(fds, func(fd fs.DirEntry) bool {
		target, err := os.Readlink(filepath.Join(proc, "fd", fd.Name()))
		return err == nil && target == fuseDevice && m.connects(filepath.Join(proc, "fdinfo", fd.Name()))
	})
}

// ownedBy reports whether a process runs as a user.
func ownedBy(proc string, user int) bool {
	status, _ := os.ReadFile(proc + "/status") // its directory may be root's all the same
	_, after, _ := strings.Cut(string(status), "\nUid:\t")
	uid, _, _ := strings.Cut(after, "\t")
	return uid == strconv.Itoa(user)
}

// connects reports whether an open FUSE device serves this mount, according to its
// file in fdinfo. A kernel that does not say is believed.
func (m mountPoint) connects(fdinfo string) bool {
	text, err := os.ReadFile(fdinfo)
	_, after, told := strings.Cut(string(text), "fuse_connection:\t")
	number, _, _ := strings.Cut(after, "\n")
	return err != nil || !told || number == m.minor
}

// listMounts returns the whole mounts of mneme that this process sees, without
// touching them: one whose daemon hangs would hang the caller.
func listMounts() ([]mountPoint, error) {
	mounts, err := allMounts()
	return slices.DeleteFunc(mounts, func(m mountPoint) bool { return m.root != "/" }), err
}

// allMounts is listMounts with parts of mounts that are bound to other places.
func allMounts() ([]mountPoint, error) {
	all, err := mountinfo.List()
	var mounts []mountPoint
	for _, m := range all {
		if m.Type == mountType {
			mounts = append(mounts, newMountPoint(m))
		}
	}
	return mounts, err
}

// newMountPoint reads what a mount of mneme says of itself.
func newMountPoint(m mountinfo.Mount) mountPoint {
	p := mountPoint{id: m.ID, dir: m.Dir, root: m.Root, uid: -1}
	_, p.minor, _ = strings.Cut(m.Device, ":")
	if pid, ok := strings.CutPrefix(m.Source, sourcePrefix); ok {
		pid, p.flat = strings.CutSuffix(pid, sourceFlat)
		p.pid, _ = strconv.Atoi(pid)
	}
	if text, found := m.Option("user_id"); found {
		p.uid, _ = strconv.Atoi(text)
	}
	return p
}

// absolute is filepath.Abs, which fails in a directory of a mount that has ended: there it is the
// shell that knows where it stands.
func absolute(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if shell := os.Getenv("PWD"); err != nil && filepath.IsAbs(shell) {
		return filepath.Join(shell, path), nil
	}
	return abs, err
}

// mountDir returns dir as mountinfo spells it: absolute and without symbolic
// links. The last segment is not looked at, because a mount may hang there.
func mountDir(dir string) (string, error) {
	abs, err := absolute(dir)
	if err != nil {
		return "", err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil { // MkdirAll will tell, or make it
		return abs, nil
	}
	return filepath.Join(parent, filepath.Base(abs)), nil
}
