package hostile

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	cwd        = ^uintptr(99) // AT_FDCWD
	plainNames = 12           // of hostileNames, which come first
)

var (
	hostileDirs  = []string{"d", "d", "e", "d/e", ".mneme", ".mneme/conflicts", ".mneme/conflicts/1", "a", "e\u0301", "..", strings.Repeat("d/", 21)}
	hostileNames = []string{
		"a", "a", "a", "b", "b", "c.md", "d", "d", "e", "d/a", "d/e/a", "gone",
		"a~", "b~", "a.tmp", ".a.swp", "4913", "#a#", ".#a", ".fuse_hidden0000000100000001", "sedAbCdEf", ".goutputstream-ABC",
		"\u00e9", "e\u0301", "A", "a\x01b", "a\x1b[31m", "a\nb", "x\u202ey", "\xff\xfe", "\u3164", "\u200d", " ", "-rf", "a\\b",
		strings.Repeat("n", 255), strings.Repeat("n", 256), strings.Repeat("\u00e9", 127), strings.Repeat("long/", 900),
		"", ".", "..", ".mneme", ".mneme/status", ".mneme/errors", ".mneme/README", ".mneme/conflicts", ".mneme/conflicts/1", ".mneme/conflicts/2/yours", ".mneme/new",
	}
	attributes = []string{"user.mneme.version", "user.mneme.seq", "user.x", "security.capability", "system.posix_acl_access", "trusted.x", "", strings.Repeat("user.x", 50)}
)

// kinds are the system calls that a caller makes, each as often as it is in the list.
var kinds = []func(c *caller){
	(*caller).openSome, (*caller).openSome, (*caller).openSome, (*caller).openSome, (*caller).openSome, (*caller).openSome,
	(*caller).writeSome, (*caller).writeSome, (*caller).writeSome, (*caller).writeSome,
	(*caller).readSome, (*caller).readSome,
	(*caller).cutSome, (*caller).syncSome, (*caller).closeSome, (*caller).closeSome, (*caller).closeSome,
	(*caller).renameSome, (*caller).renameSome, (*caller).makeSome, (*caller).makeSome, (*caller).removeSome, (*caller).removeSome,
	(*caller).changeSome, (*caller).attributeSome, (*caller).lockSome, (*caller).mapSome, (*caller).mapSome,
	(*caller).copySome, (*caller).pipeSome, (*caller).listSome, (*caller).lookSome, (*caller).lookSome,
	(*caller).controlSome, (*caller).notifySome, (*caller).handleSome, (*caller).moveSome, (*caller).rare,
}

// any makes one of the system calls, with what belongs to it.
func (c *caller) any() {
	if c.chance(20) {
		c.fill()
	}
	pick(c, kinds)(c)
}

func (c *caller) openSome() {
	flags := pick(c, []uintptr{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR, unix.O_WRONLY | unix.O_CREAT, unix.O_RDWR | unix.O_CREAT, unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC, 3})
	flags |= c.some(unix.O_APPEND, unix.O_TRUNC, unix.O_EXCL, unix.O_DIRECT, unix.O_SYNC, unix.O_DSYNC, unix.O_NOFOLLOW, unix.O_NOATIME,
		unix.O_DIRECTORY, unix.O_PATH, unix.O_TMPFILE, unix.O_CREAT, unix.O_NOCTTY, 1<<30)
	mode := uintptr(c.random.IntN(0o10000))
	if !c.chance(4) {
		mode = 0o600
	}
	switch {
	case c.chance(12): // an open file, again
		path := c.put(nameAt, "/proc/self/fd/"+itoa(c.fd()))
		c.keep(c.sys("openat", unix.SYS_OPENAT, cwd, path, flags|unix.O_NONBLOCK, mode))
	case c.chance(12):
		how := c.struct64(0, uint64(flags), uint64(mode), uint64(c.some(1, 2, 4, 8, 16, 32)))
		c.keep(c.sys("openat2", unix.SYS_OPENAT2, c.dir(), c.path(nameAt), how, 24))
	case c.chance(12):
		c.keep(c.sys("openat", unix.SYS_OPENAT, cwd, c.path(nameAt), unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, mode))
	default:
		c.keep(c.sys("openat", unix.SYS_OPENAT, c.dir(), c.path(nameAt), flags, mode))
	}
}

func itoa(n uintptr) string {
	text, _ := json.Marshal(int32(n))
	return string(text)
}

func (c *caller) writeSome() {
	switch c.random.IntN(4) {
	case 0:
		c.sys("write", unix.SYS_WRITE, c.fd(), c.text(), c.size())
	case 1:
		c.sys("pwrite64", unix.SYS_PWRITE64, c.fd(), c.text(), c.size(), c.offset())
	case 2:
		at, parts := c.vector()
		c.sys("writev", unix.SYS_WRITEV, c.fd(), at, parts)
	default:
		at, parts := c.vector()
		c.sys("pwritev2", unix.SYS_PWRITEV2, c.fd(), at, parts, c.offset(), 0, c.some(1, 2, 4, 8, 16, 32, 64))
	}
}

func (c *caller) readSome() {
	switch c.random.IntN(5) {
	case 0:
		c.sys("read", unix.SYS_READ, c.fd(), c.text(), c.size())
	case 1:
		c.sys("pread64", unix.SYS_PREAD64, c.fd(), c.text(), c.size(), c.offset())
	case 2:
		at, parts := c.vector()
		c.sys("preadv2", unix.SYS_PREADV2, c.fd(), at, parts, c.offset(), 0, c.some(1, 2, 4, 8, 64))
	case 3:
		c.sys("lseek", unix.SYS_LSEEK, c.fd(), c.offset(), pick(c, []uintptr{0, 1, 2, unix.SEEK_DATA, unix.SEEK_HOLE, 99}))
	default:
		c.sys("readahead", unix.SYS_READAHEAD, c.fd(), c.offset(), c.size())
		c.sys("fadvise64", unix.SYS_FADVISE64, c.fd(), c.offset(), c.size(), uintptr(c.random.IntN(7)))
	}
}

func (c *caller) cutSome() {
	switch c.random.IntN(3) {
	case 0:
		c.sys("ftruncate", unix.SYS_FTRUNCATE, c.fd(), c.offset())
	case 1:
		c.sys("truncate", unix.SYS_TRUNCATE, c.path(nameAt), c.offset())
	default:
		c.sys("fallocate", unix.SYS_FALLOCATE, c.fd(), c.some(1, 2, 4, 8, 16, 32, 64), c.offset(), c.size())
	}
}

func (c *caller) syncSome() {
	switch c.random.IntN(4) {
	case 0:
		c.sys("fsync", unix.SYS_FSYNC, c.fd())
	case 1:
		c.sys("fdatasync", unix.SYS_FDATASYNC, c.fd())
	case 2:
		c.sys("sync_file_range", unix.SYS_SYNC_FILE_RANGE, c.fd(), c.offset(), c.size(), uintptr(c.random.IntN(8)))
	default:
		c.sys("syncfs", unix.SYS_SYNCFS, c.fd())
	}
}

func (c *caller) closeSome() {
	switch c.random.IntN(5) {
	case 0:
		c.keep(c.sys("dup", unix.SYS_DUP, c.fd()))
	case 1:
		if to := pick(c, c.pool()).Load(); to >= 0 {
			c.sys("dup3", unix.SYS_DUP3, c.fd(), uintptr(to), 0)
		}
	default:
		if fd := pick(c, c.pool()).Swap(-1); fd >= 0 {
			c.sys("close", unix.SYS_CLOSE, uintptr(fd))
		}
	}
}

func (c *caller) renameSome() {
	if c.chance(2) {
		c.sys("rename", unix.SYS_RENAMEAT2, cwd, c.path(nameAt), cwd, c.path(otherNameAt), 0)
		return
	}
	how := pick(c, []uintptr{0, unix.RENAME_NOREPLACE, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE, unix.RENAME_WHITEOUT, 3, 7, 8})
	c.sys("renameat2", unix.SYS_RENAMEAT2, c.dir(), c.path(nameAt), c.dir(), c.path(otherNameAt), how)
}

func (c *caller) makeSome() {
	mode := uintptr(c.random.IntN(0o10000))
	switch c.random.IntN(6) {
	case 0:
		c.sys("linkat", unix.SYS_LINKAT, c.dir(), c.path(nameAt), c.dir(), c.path(otherNameAt), c.some(unix.AT_SYMLINK_FOLLOW, unix.AT_EMPTY_PATH))
	case 1:
		c.sys("symlinkat", unix.SYS_SYMLINKAT, c.path(nameAt), c.dir(), c.path(otherNameAt))
	case 2:
		kind := pick(c, []uintptr{0, unix.S_IFREG, unix.S_IFREG, unix.S_IFIFO, unix.S_IFCHR, unix.S_IFBLK, unix.S_IFSOCK, unix.S_IFDIR})
		c.sys("mknodat", unix.SYS_MKNODAT, c.dir(), c.path(nameAt), kind|mode&0o7777, uintptr(c.random.IntN(1<<12)))
	default:
		c.sys("mkdirat", unix.SYS_MKDIRAT, c.dir(), c.path(nameAt), mode|0o700)
	}
}

func (c *caller) removeSome() {
	c.sys("unlinkat", unix.SYS_UNLINKAT, c.dir(), c.path(nameAt), pick(c, []uintptr{0, 0, unix.AT_REMOVEDIR, unix.AT_REMOVEDIR, 1}))
}

func (c *caller) changeSome() {
	mode := uintptr(c.random.IntN(0o10000)) | 0o600
	switch c.random.IntN(5) {
	case 0:
		c.sys("fchmodat", unix.SYS_FCHMODAT, c.dir(), c.path(nameAt), mode|0o100)
	case 1:
		c.sys("fchmod", unix.SYS_FCHMOD, c.fd(), mode|0o100)
	case 2:
		owner := pick(c, []uintptr{agent, 0, other, ^uintptr(0)})
		c.sys("fchownat", unix.SYS_FCHOWNAT, c.dir(), c.path(nameAt), owner, owner, c.some(unix.AT_EMPTY_PATH, unix.AT_SYMLINK_NOFOLLOW))
	default:
		times := c.struct64(0, uint64(c.offset()), uint64(pick(c, []uintptr{0, unix.UTIME_NOW, unix.UTIME_OMIT, 999_999_999, 1 << 40})),
			uint64(c.offset()), uint64(pick(c, []uintptr{0, unix.UTIME_NOW, unix.UTIME_OMIT})))
		c.sys("utimensat", unix.SYS_UTIMENSAT, c.dir(), c.path(nameAt), pick(c, []uintptr{0, times}), 0)
	}
}

func (c *caller) attributeSome() {
	name := c.put(otherNameAt, pick(c, attributes))
	size := pick(c, []uintptr{0, 1, 16, 4096, 65536, 65537})
	switch c.random.IntN(5) {
	case 0:
		c.sys("setxattr", unix.SYS_SETXATTR, c.path(nameAt), name, c.text(), size, uintptr(c.random.IntN(4)))
	case 1:
		c.sys("getxattr", unix.SYS_GETXATTR, c.path(nameAt), name, c.text(), size)
	case 2:
		c.sys("fgetxattr", unix.SYS_FGETXATTR, c.fd(), name, c.text(), size)
	case 3:
		c.sys("listxattr", unix.SYS_LISTXATTR, c.path(nameAt), c.text(), size)
	default:
		c.sys("removexattr", unix.SYS_REMOVEXATTR, c.path(nameAt), name)
	}
}

// lockSome waits for no lock: another thread might never give it back.
func (c *caller) lockSome() {
	lock := c.struct64(0, uint64(c.random.IntN(3))|uint64(c.random.IntN(3))<<16, uint64(c.offset()), uint64(c.offset()), 0)
	switch c.random.IntN(4) {
	case 0:
		c.sys("flock", unix.SYS_FLOCK, c.fd(), pick(c, []uintptr{unix.LOCK_SH, unix.LOCK_EX, unix.LOCK_UN})|unix.LOCK_NB)
	case 1:
		command := pick(c, []uintptr{unix.F_SETLK, unix.F_GETLK, unix.F_OFD_SETLK, unix.F_OFD_GETLK})
		c.sys("fcntl", unix.SYS_FCNTL, c.fd(), command, lock)
	case 2: // a lease, which others wait for
		if fd, ok := c.sys("openat", unix.SYS_OPENAT, cwd, c.path(nameAt), unix.O_RDONLY|unix.O_NONBLOCK, 0); ok {
			c.sys("fcntl", unix.SYS_FCNTL, fd, unix.F_SETLEASE, uintptr(c.random.IntN(2)))
			c.lookSome()
			c.sys("fcntl", unix.SYS_FCNTL, fd, unix.F_SETLEASE, unix.F_UNLCK)
			c.sys("close", unix.SYS_CLOSE, fd)
		}
	default:
		command := pick(c, []uintptr{unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL, unix.F_SETPIPE_SZ, unix.F_GETPIPE_SZ, unix.F_ADD_SEALS, unix.F_NOTIFY, unix.F_SET_RW_HINT, 9999})
		c.sys("fcntl", unix.SYS_FCNTL, c.fd(), command, c.some(1, 2, unix.O_APPEND, unix.O_DIRECT, unix.O_NOATIME)|unix.O_NONBLOCK) // never a pipe that blocks
	}
}

// mapSome maps a file and uses the mapping. It is read and written by system calls,
// which fail where there is no file.
func (c *caller) mapSome() {
	if !c.mapped {
		c.mapOne()
		return
	}
	switch c.random.IntN(6) {
	case 0, 1:
		c.sys("write to a mapping", unix.SYS_PREAD64, uintptr(c.memory), c.room+uintptr(c.random.IntN(5000)), pick(c, []uintptr{1, 100, 5000}), 0)
	case 2:
		c.sys("read a mapping", unix.SYS_PWRITE64, uintptr(c.memory), c.room, pick(c, []uintptr{1, 100, 5000}), uintptr(c.random.IntN(1000)))
	case 3:
		c.sys("msync", unix.SYS_MSYNC, c.room, dataSize, c.some(1, 2, 4))
	case 4:
		c.sys("madvise", unix.SYS_MADVISE, c.room, 65536, pick(c, []uintptr{1, 2, 3, 4, 8, 9, 14, 20, 21, 22, 23}))
	default: // unmapped, and nothing else gets the room
		c.sys("unmap", unix.SYS_MMAP, c.room, dataSize, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED, ^uintptr(0), 0)
		c.mapped = false
	}
}

// mapOne maps a file and moves the mapping to its room. That MAP_FIXED maps it there and
// fails would leave a hole in the room, which Go's heap may get.
func (c *caller) mapOne() {
	size := pick(c, []uintptr{1, 4096, 65536, 200000, dataSize})
	access := pick(c, []uintptr{unix.PROT_READ, unix.PROT_READ | unix.PROT_WRITE, unix.PROT_READ | unix.PROT_WRITE, unix.PROT_EXEC, 0})
	flags := pick(c, []uintptr{unix.MAP_SHARED, unix.MAP_SHARED, unix.MAP_PRIVATE, unix.MAP_SHARED_VALIDATE}) | c.some(unix.MAP_POPULATE, unix.MAP_NORESERVE)
	at, ok := c.sys("mmap", unix.SYS_MMAP, 0, size, access, flags, c.fd(), pick(c, []uintptr{0, 0, 4096, 1 << 20, 1 << 60}))
	if !ok {
		return
	}
	if _, c.mapped = c.sys("mremap", unix.SYS_MREMAP, at, size, size, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, c.room); !c.mapped {
		c.sys("munmap", unix.SYS_MUNMAP, at, size)
	}
}

func (c *caller) copySome() {
	in, out := c.struct64(0, uint64(c.offset())), c.struct64(8, uint64(c.offset()))
	switch c.random.IntN(3) {
	case 0:
		c.sys("copy_file_range", unix.SYS_COPY_FILE_RANGE, c.fd(), pick(c, []uintptr{0, in}), c.fd(), pick(c, []uintptr{0, out}), c.size(), c.some(1))
	case 1:
		c.sys("sendfile", unix.SYS_SENDFILE, c.fd(), c.fd(), pick(c, []uintptr{0, in}), c.size())
	default:
		c.sys("splice", unix.SYS_SPLICE, c.fd(), pick(c, []uintptr{0, in}), c.fd(), pick(c, []uintptr{0, out}), c.size(), unix.SPLICE_F_NONBLOCK|c.some(1, 4, 8))
	}
}

func (c *caller) pipeSome() {
	if _, ok := c.sys("pipe2", unix.SYS_PIPE2, c.at(resultAt), unix.O_NONBLOCK|unix.O_CLOEXEC|c.some(unix.O_DIRECT)); !ok {
		return
	}
	var ends [2]uintptr
	for i := range ends {
		ends[i] = uintptr(c.arena[resultAt+4*i]) | uintptr(c.arena[resultAt+4*i+1])<<8
	}
	at, parts := c.vector()
	c.sys("vmsplice", unix.SYS_VMSPLICE, ends[1], at, parts, unix.SPLICE_F_NONBLOCK|c.some(1, 4, 8))
	c.sys("splice", unix.SYS_SPLICE, c.fd(), 0, ends[1], 0, c.size(), unix.SPLICE_F_NONBLOCK)
	c.sys("splice", unix.SYS_SPLICE, ends[0], 0, c.fd(), 0, c.size(), unix.SPLICE_F_NONBLOCK|c.some(1))
	c.keep(ends[0], true)
	c.keep(ends[1], true)
}

func (c *caller) listSome() {
	fd, ok := c.sys("openat", unix.SYS_OPENAT, cwd, c.put(nameAt, pick(c, c.Trees)+"/"+pick(c, hostileDirs)), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if ok {
		c.keep(fd, ok)
	} else {
		fd = c.fd()
	}
	for range 1 + c.random.IntN(3) {
		c.sys("getdents64", unix.SYS_GETDENTS64, fd, c.at(dataAt), pick(c, []uintptr{0, 1, 23, 24, 100, 280, 4096, 65536, ^uintptr(0)}))
		if c.chance(3) {
			c.sys("lseek", unix.SYS_LSEEK, fd, c.offset(), uintptr(c.random.IntN(3)))
		}
	}
}

func (c *caller) lookSome() {
	switch c.random.IntN(6) {
	case 0:
		c.sys("statx", unix.SYS_STATX, c.dir(), c.path(nameAt), c.some(unix.AT_EMPTY_PATH, unix.AT_SYMLINK_NOFOLLOW, unix.AT_STATX_FORCE_SYNC, unix.AT_STATX_DONT_SYNC), pick(c, []uintptr{0, 0xfff, 0x7fffffff, 1 << 31}), c.at(resultAt))
	case 1:
		c.sys("newfstatat", unix.SYS_NEWFSTATAT, c.dir(), c.path(nameAt), c.at(resultAt), c.some(unix.AT_EMPTY_PATH, unix.AT_SYMLINK_NOFOLLOW))
	case 2:
		c.sys("statfs", unix.SYS_STATFS, c.path(nameAt), c.at(resultAt))
	case 3:
		c.sys("fstatfs", unix.SYS_FSTATFS, c.fd(), c.at(resultAt))
	case 4:
		c.sys("faccessat2", unix.SYS_FACCESSAT2, c.dir(), c.path(nameAt), uintptr(c.random.IntN(8)), c.some(unix.AT_EACCESS, unix.AT_EMPTY_PATH))
	default:
		c.sys("readlinkat", unix.SYS_READLINKAT, c.dir(), c.path(nameAt), c.at(resultAt), pick(c, []uintptr{0, 1, 4096}))
	}
}

func (c *caller) controlSome() {
	numbers := []uintptr{unix.FS_IOC_GETFLAGS, unix.FS_IOC_SETFLAGS, 0x541b /* FIONREAD */, 0xc0045877 /* FIFREEZE */, unix.FICLONE, unix.FICLONERANGE, unix.FIDEDUPERANGE,
		0xc020660b /* FIEMAP */, 0x801c581f /* FSGETXATTR */, 0x8004e500 /* FUSE_DEV_IOC_CLONE */, 0xc0046686 /* FSVERITY */, 0x5401, uintptr(c.random.Uint32() | 1<<30)}
	c.struct64(0, uint64(c.fd()), uint64(c.offset()), uint64(c.size()), uint64(c.offset()))
	c.sys("ioctl", unix.SYS_IOCTL, c.fd(), pick(c, numbers), pick(c, []uintptr{0, c.fd(), c.at(structAt)}))
}

func (c *caller) notifySome() {
	switch c.random.IntN(3) {
	case 0:
		c.keep(c.sys("inotify_init1", unix.SYS_INOTIFY_INIT1, unix.IN_NONBLOCK|unix.IN_CLOEXEC))
	case 1:
		c.sys("inotify_add_watch", unix.SYS_INOTIFY_ADD_WATCH, c.fd(), c.path(nameAt), unix.IN_ALL_EVENTS)
	default:
		if fd, ok := c.sys("fanotify_init", unix.SYS_FANOTIFY_INIT, unix.FAN_NONBLOCK|unix.FAN_CLOEXEC|unix.FAN_REPORT_FID|c.some(unix.FAN_REPORT_DIR_FID, unix.FAN_REPORT_NAME), 0); ok {
			c.sys("fanotify_mark", unix.SYS_FANOTIFY_MARK, fd, unix.FAN_MARK_ADD|c.some(unix.FAN_MARK_ONLYDIR, unix.FAN_MARK_FILESYSTEM), unix.FAN_OPEN|unix.FAN_MODIFY|unix.FAN_CLOSE, cwd, c.path(nameAt))
			c.keep(fd, ok)
		}
	}
}

func (c *caller) handleSome() {
	size := pick(c, []uint64{0, 8, 16, 128})
	handle := c.struct64(0, size, c.random.Uint64(), c.random.Uint64())
	c.sys("name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, c.dir(), c.path(nameAt), handle, c.at(resultAt), c.some(unix.AT_SYMLINK_FOLLOW, unix.AT_EMPTY_PATH))
	c.keep(c.sys("open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, c.fd(), handle, unix.O_RDONLY))
}

// moveSome goes to a directory, which may be gone then.
func (c *caller) moveSome() {
	dir := pick(c, c.Trees)
	if c.chance(2) {
		dir += "/gone"
	}
	path := c.put(nameAt, dir)
	c.sys("mkdirat", unix.SYS_MKDIRAT, cwd, path, 0o700)
	c.sys("chdir", unix.SYS_CHDIR, path)
	c.sys("unlinkat", unix.SYS_UNLINKAT, cwd, path, unix.AT_REMOVEDIR)
	c.sys("getcwd", unix.SYS_GETCWD, c.at(resultAt), 4096)
}

// rare starts programs with descriptors that they inherit, and kills one in the middle
// of its calls.
func (c *caller) rare() {
	if !c.chance(8) || c.Endless {
		c.lookSome()
		return
	}
	files := make([]uintptr, 3)
	for i := range files {
		files[i] = c.fd()
	}
	if c.chance(4) {
		c.killVictim()
		endless := c.order
		endless.Endless, endless.Threads, endless.Seed = true, 2, c.random.Uint64()
		text, _ := json.Marshal(endless)
		c.victim, _ = os.StartProcess("/proc/self/exe", os.Args[:1], &os.ProcAttr{
			Env: []string{callsOrder + "=" + string(text)}, Sys: &syscall.SysProcAttr{Pdeathsig: 0, Setpgid: false},
		})
		return
	}
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "echo one; echo two >&2; (sleep 0.05; echo three) & read x"}, &syscall.ProcAttr{Files: files})
	if err == nil {
		go func() { _, _ = syscall.Wait4(pid, nil, 0, nil) }()
	}
}

func (c *caller) killVictim() {
	if c.victim != nil {
		_ = c.victim.Kill()
		_, _ = c.victim.Wait()
		c.victim = nil
	}
}
