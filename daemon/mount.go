package daemon

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

// The type and the source of mneme's mounts in mountinfo. The source has the daemon's
// process id, see fusefs.Source.
const (
	MountType    = "fuse.mneme"
	sourcePrefix = "mneme:"
	sourceFlat   = ":flat"
	fuseDevice   = "/dev/fuse"
)

// Mount is a mount of mneme on this machine.
type Mount struct {
	Dir  string
	Root string // the part of the file system at Dir: "/", or a part that is bound to another place
	PID  int    // of the daemon; 0: the mount does not name it
	UID  int    // of the user who mounted it; -1: the mount does not name it

	id    int    // of the mount
	minor string // of the device, the number of the FUSE connection
	flat  bool   // the mount is one store
}

// ended reports whether a process has exited, see proc_pid_stat(5). Its number may still
// wait for its parent. Only root may look at its files.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X")
}

// Alive reports whether the daemon still runs. Another process may have its number: one
// that got it later, or one of this namespace. Such a process does not have the FUSE
// device open for this connection. If another user runs it, it is not the daemon either,
// for the user who mounted chooses the number.
func (m Mount) Alive() bool {
	proc := fmt.Sprintf("/proc/%d", m.PID)
	if !ownedBy(proc, m.UID) {
		return false
	}
	fds, err := os.ReadDir(proc + "/fd")
	if err != nil {
		return errors.Is(err, fs.ErrPermission) && !ended(m.PID)
	}
	return slices.ContainsFunc(fds, func(fd fs.DirEntry) bool {
		target, err := os.Readlink(filepath.Join(proc, "fd", fd.Name()))
		return err == nil && target == fuseDevice && m.connects(filepath.Join(proc, "fdinfo", fd.Name()))
	})
}

// ownedBy reports whether a process runs as a user.
func ownedBy(proc string, user int) bool {
	status, _ := os.ReadFile(proc + "/status") // the owner of its directory may be root
	_, after, _ := strings.Cut(string(status), "\nUid:\t")
	uid, _, _ := strings.Cut(after, "\t")
	return uid == strconv.Itoa(user)
}

// connects reports whether an open FUSE device serves this mount, according to its file
// in fdinfo. It is true if the kernel does not say.
func (m Mount) connects(fdinfo string) bool {
	text, err := os.ReadFile(fdinfo)
	_, after, told := strings.Cut(string(text), "fuse_connection:\t")
	number, _, _ := strings.Cut(after, "\n")
	return err != nil || !told || number == m.minor
}

// Mounts returns the whole mounts of mneme that this process sees. It does not touch
// them: a mount whose daemon hangs would block the caller.
func Mounts() ([]Mount, error) {
	mounts, err := AllMounts()
	return slices.DeleteFunc(mounts, func(m Mount) bool { return m.Root != "/" }), err
}

// AllMounts is Mounts with parts of mounts that are bound to other places.
func AllMounts() ([]Mount, error) {
	all, err := mountinfo.List()
	var mounts []Mount
	for _, m := range all {
		if m.Type == MountType {
			mounts = append(mounts, newMount(m))
		}
	}
	return mounts, err
}

// newMount returns a mount from its entry in mountinfo.
func newMount(m mountinfo.Mount) Mount {
	p := Mount{id: m.ID, Dir: m.Dir, Root: m.Root, UID: -1}
	_, p.minor, _ = strings.Cut(m.Device, ":")
	if pid, ok := strings.CutPrefix(m.Source, sourcePrefix); ok {
		pid, p.flat = strings.CutSuffix(pid, sourceFlat)
		p.PID, _ = strconv.Atoi(pid)
	}
	if text, found := m.Option("user_id"); found {
		p.UID, _ = strconv.Atoi(text)
	}
	return p
}

// Absolute is filepath.Abs, which fails in a directory of a mount that has ended. There
// Absolute uses the shell's $PWD.
func Absolute(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if shell := os.Getenv("PWD"); err != nil && filepath.IsAbs(shell) {
		return filepath.Join(shell, path), nil
	}
	return abs, err
}

// MountDir returns dir as mountinfo spells it: absolute and without symbolic links. It
// does not look at the last segment, because a mount may hang there.
func MountDir(dir string) (string, error) {
	abs, err := Absolute(dir)
	if err != nil {
		return "", err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil { // a later MkdirAll makes it or fails
		return abs, nil
	}
	return filepath.Join(parent, filepath.Base(abs)), nil
}

// Above returns the topmost mount at or above a path.
func Above(mounts []Mount, path string) (best Mount, found bool) {
	for _, m := range mounts {
		if (m.Dir == path || strings.HasPrefix(path, m.Dir+"/")) && len(m.Dir) >= len(best.Dir) {
			best, found = m, true
		}
	}
	return best, found
}
