package upkeep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"mneme/daemon"
	"mneme/internal/bytesize"
	"mneme/internal/durable"
	"mneme/internal/safepath"
	"mneme/internal/xdg"
)

// machine is the checked part of this machine. Tests have others.
type machine struct {
	fuse     func() error
	uid      int
	release  func() string // of the kernel
	fuseConf string        // says what users may do
}

var machineHere = machine{fuse: daemon.CheckFuse, uid: os.Geteuid(), release: kernelRelease, fuseConf: "/etc/fuse.conf"}

func kernelRelease() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// kernelResend is the first Linux that repeats requests, which --keep needs.
var kernelResend = [2]int{6, 9}

// machine checks FUSE, the kernel and the directory to mount at.
func (e *examination) machine(m machine, at string) {
	if err := m.fuse(); err != nil {
		e.failure("fuse", err)
	} else {
		e.ok("fuse", "")
	}
	if m.uid != 0 {
		conf, err := os.ReadFile(m.fuseConf)
		if allowsOthers(string(conf)) {
			e.ok("fuse for other users", "")
		} else if err == nil || errors.Is(err, fs.ErrNotExist) {
			e.warning("fuse for other users", fmt.Errorf("only you can see your mounts; a line user_allow_other in %s allows --allow-other", m.fuseConf))
		} else {
			e.warning("fuse for other users", err)
		}
	}
	e.kernel(m.release())
	e.mountDir(at)
}

// allowsOthers reports whether the settings of FUSE let users share their mounts.
func allowsOthers(conf string) bool {
	for line := range strings.Lines(conf) {
		if strings.TrimSpace(line) == "user_allow_other" {
			return true
		}
	}
	return false
}

func (e *examination) kernel(release string) {
	var is [2]int
	if n, _ := fmt.Sscanf(release, "%d.%d", &is[0], &is[1]); n != 2 {
		e.warning("kernel", fmt.Errorf("its version is %.40q, which says nothing; `mneme mount --keep` needs Linux %d.%d or newer", release, kernelResend[0], kernelResend[1]))
		return
	}
	if slices.Compare(is[:], kernelResend[:]) < 0 {
		e.warning("kernel", fmt.Errorf("it is Linux %s; `mneme mount --keep` needs %d.%d or newer to go on with requests that were not answered", release, kernelResend[0], kernelResend[1]))
		return
	}
	e.ok("kernel", "Linux "+release)
}

// mountDir checks the directory to mount at, or its parent if it is missing.
func (e *examination) mountDir(at string) {
	const what = "mount directory"
	info, err := os.Stat(at)
	switch {
	case errors.Is(err, unix.ENOTCONN):
		e.failure(what, fmt.Errorf("%s is a mount that nobody serves; `mneme unmount --at %[1]s` ends it", at))
	case errors.Is(err, fs.ErrNotExist):
		parent := nearest(at)
		if err := safepath.CheckNew(filepath.Join(parent, filepath.Base(at))); errors.Is(err, safepath.ErrUntrusted) {
			e.failure(what, daemon.ExplainUntrusted(at, err))
			return
		}
		if unix.Access(parent, unix.W_OK) != nil {
			e.warning(what, fmt.Errorf("%s is not there, and you may not make it in %s; `sudo install -d -o $USER %[1]s` does, or mount elsewhere with --at", at, parent))
			return
		}
		e.ok(what, at+" is made by the first mount")
	case err != nil:
		e.failure(what, err)
	case !info.IsDir():
		e.failure(what, fmt.Errorf("%s is no directory; move it away, or mount elsewhere with --at", at))
	default:
		if mounted, err := daemon.CheckSite(at); err != nil {
			e.failure(what, err)
		} else if mounted {
			e.ok(what, at+", where mneme is mounted")
		} else {
			e.ok(what, at)
		}
	}
}

// nearest returns the nearest existing directory above a path.
func nearest(path string) string {
	for {
		path = filepath.Dir(path)
		if _, err := os.Stat(path); err == nil || path == "/" || path == "." {
			return path
		}
	}
}

// leastFree is the free space that a disk should have, in bytes.
const leastFree = 256 << 20

// directories checks mneme's own directories.
func (e *examination) directories() {
	for _, d := range []struct {
		what string
		find func() (string, error)
	}{{"data directory", xdg.Data}, {"state directory", xdg.State}, {"cache directory", xdg.Cache}} {
		dir, err := d.find()
		if err != nil {
			e.failure(d.what, err)
			continue
		}
		e.directory(d.what, dir)
	}
}

// directory checks one of them.
func (e *examination) directory(what, dir string) {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if parent := nearest(dir); unix.Access(parent, unix.W_OK|unix.X_OK) != nil {
			e.failure(what, fmt.Errorf("%s is not there, and you may not make it in %s; make it, or set HOME to a directory of yours", dir, parent))
			return
		}
		e.ok(what, dir+" is made when it is needed")
		return
	}
	if err != nil {
		e.failure(what, err)
		return
	}
	switch mode := info.Mode(); {
	case !info.IsDir():
		e.failure(what, fmt.Errorf("%s is no directory; move it away", dir))
		return
	case unix.Access(dir, unix.R_OK|unix.W_OK|unix.X_OK) != nil:
		e.failure(what, fmt.Errorf("you may not read and write %s (%v); `sudo chown -R $USER %[1]s` makes it yours", dir, mode.Perm()))
		return
	case mode.Perm()&0o022 != 0:
		e.warning(what, fmt.Errorf("others may write to %s (%v); `chmod go-w %[1]s` ends that", dir, mode.Perm()))
		return
	}
	kind := fileSystem(dir)
	switch free, _, err := durable.Space(dir); {
	case err != nil:
		e.failure(what, err)
	case remoteKinds[kind] != "":
		e.warning(what, fmt.Errorf("%s is on %s, where locks and syncs may not hold for several machines; set HOME or XDG directories to a local disk", dir, remoteKinds[kind]))
	case free < leastFree:
		e.warning(what, fmt.Errorf("%s has %s free; make room, want %s", dir, bytesize.Text(uint64(free)), bytesize.Text(leastFree)))
	default:
		e.ok(what, fmt.Sprintf("%s, %s free", dir, bytesize.Text(uint64(free))))
	}
}

// remoteKinds are network file systems, by their magic number; see statfs(2).
var remoteKinds = map[int64]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB",
	unix.CEPH_SUPER_MAGIC: "Ceph", unix.V9FS_MAGIC: "9P", unix.FUSE_SUPER_MAGIC: "FUSE",
}

func fileSystem(dir string) int64 {
	var info unix.Statfs_t
	if unix.Statfs(dir, &info) != nil {
		return 0
	}
	return int64(info.Type)
}
