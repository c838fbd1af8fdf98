package fusefs

import (
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/fusedev"
)

// kind is a kind of request that the kernel sends.
type kind int

const (
	kindLookup kind = iota
	kindForget
	kindGetAttr
	kindStatx
	kindSetAttr
	kindOpen
	kindCreate
	kindRead
	kindWrite
	kindFlush
	kindFsync
	kindRelease
	kindOpenDir
	kindReadDir
	kindReadDirPlus
	kindReleaseDir
	kindGetXAttr
	kindListXAttr
	kindMkdir
	kindUnlink
	kindRmdir
	kindRename
	kindStatFs
	kinds
)

// kindNames are what fuse(4) calls the kinds.
var kindNames = [kinds]string{
	"LOOKUP", "FORGET", "GETATTR", "STATX", "SETATTR", "OPEN", "CREATE", "READ", "WRITE", "FLUSH", "FSYNC", "RELEASE",
	"OPENDIR", "READDIR", "READDIRPLUS", "RELEASEDIR", "GETXATTR", "LISTXATTR", "MKDIR", "UNLINK", "RMDIR", "RENAME", "STATFS",
}

// meter counts the requests on their way to a file system, and how long they
// take. The kinds that only a few programs ever cause are passed on uncounted.
type meter struct {
	fusedev.FileSystem
	calls [kinds]struct{ count, nanoseconds atomic.Uint64 }
}

// done counts one request that began at start.
func (m *meter) done(k kind, start time.Time) {
	m.calls[k].count.Add(1)
	m.calls[k].nanoseconds.Add(uint64(time.Since(start)))
}

// inline counts a request if it was answered at once.
func (m *meter) inline(k kind, start time.Time, answered bool) {
	if answered {
		m.done(k, start)
	}
}

func (m *meter) InlineLookup(header *fuse.InHeader, name string, out *fuse.EntryOut) (fuse.Status, bool) {
	start := time.Now()
	status, answered := m.FileSystem.InlineLookup(header, name, out)
	m.inline(kindLookup, start, answered)
	return status, answered
}

func (m *meter) InlineGetAttr(in *fuse.GetAttrIn, out *fuse.AttrOut) (fuse.Status, bool) {
	start := time.Now()
	status, answered := m.FileSystem.InlineGetAttr(in, out)
	m.inline(kindGetAttr, start, answered)
	return status, answered
}

func (m *meter) InlineOpen(in *fuse.OpenIn, out *fuse.OpenOut) (fuse.Status, bool) {
	start := time.Now()
	status, answered := m.FileSystem.InlineOpen(in, out)
	m.inline(kindOpen, start, answered)
	return status, answered
}

func (m *meter) InlineCreate(in *fuse.CreateIn, name string, out *fuse.CreateOut) (fuse.Status, bool) {
	start := time.Now()
	status, answered := m.FileSystem.InlineCreate(in, name, out)
	m.inline(kindCreate, start, answered)
	return status, answered
}

func (m *meter) InlineWrite(in *fuse.WriteIn, data []byte) (uint32, fuse.Status, bool) {
	start := time.Now()
	size, status, answered := m.FileSystem.InlineWrite(in, data)
	m.inline(kindWrite, start, answered)
	return size, status, answered
}

func (m *meter) InlineRelease(in *fuse.ReleaseIn) bool {
	start := time.Now()
	answered := m.FileSystem.InlineRelease(in)
	m.inline(kindRelease, start, answered)
	return answered
}

func (m *meter) InlineOpenDir(in *fuse.OpenIn, out *fuse.OpenOut) (fuse.Status, bool) {
	start := time.Now()
	status, answered := m.FileSystem.InlineOpenDir(in, out)
	m.inline(kindOpenDir, start, answered)
	return status, answered
}

func (m *meter) InlineReleaseDir(in *fuse.ReleaseIn) bool {
	start := time.Now()
	answered := m.FileSystem.InlineReleaseDir(in)
	m.inline(kindReleaseDir, start, answered)
	return answered
}

func (m *meter) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	defer m.done(kindLookup, time.Now())
	return m.FileSystem.Lookup(cancel, header, name, out)
}

func (m *meter) Forget(id, count uint64) {
	defer m.done(kindForget, time.Now())
	m.FileSystem.Forget(id, count)
}

func (m *meter) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	defer m.done(kindGetAttr, time.Now())
	return m.FileSystem.GetAttr(cancel, in, out)
}

func (m *meter) Statx(cancel <-chan struct{}, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status {
	defer m.done(kindStatx, time.Now())
	return m.FileSystem.Statx(cancel, in, out)
}

func (m *meter) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	defer m.done(kindSetAttr, time.Now())
	return m.FileSystem.SetAttr(cancel, in, out)
}

func (m *meter) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	defer m.done(kindOpen, time.Now())
	return m.FileSystem.Open(cancel, in, out)
}

func (m *meter) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	defer m.done(kindCreate, time.Now())
	return m.FileSystem.Create(cancel, in, name, out)
}

func (m *meter) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	defer m.done(kindRead, time.Now())
	return m.FileSystem.Read(cancel, in, buf)
}

func (m *meter) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	defer m.done(kindWrite, time.Now())
	return m.FileSystem.Write(cancel, in, data)
}

func (m *meter) Writev(cancel <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	defer m.done(kindWrite, time.Now())
	return m.FileSystem.Writev(cancel, in, data)
}

func (m *meter) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	defer m.done(kindFlush, time.Now())
	return m.FileSystem.Flush(cancel, in)
}

func (m *meter) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	defer m.done(kindFsync, time.Now())
	return m.FileSystem.Fsync(cancel, in)
}

func (m *meter) Release(cancel <-chan struct{}, in *fuse.ReleaseIn) {
	defer m.done(kindRelease, time.Now())
	m.FileSystem.Release(cancel, in)
}

func (m *meter) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	defer m.done(kindOpenDir, time.Now())
	return m.FileSystem.OpenDir(cancel, in, out)
}

func (m *meter) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	defer m.done(kindReadDir, time.Now())
	return m.FileSystem.ReadDir(cancel, in, out)
}

func (m *meter) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	defer m.done(kindReadDirPlus, time.Now())
	return m.FileSystem.ReadDirPlus(cancel, in, out)
}

func (m *meter) ReleaseDir(in *fuse.ReleaseIn) {
	defer m.done(kindReleaseDir, time.Now())
	m.FileSystem.ReleaseDir(in)
}

func (m *meter) GetXAttr(cancel <-chan struct{}, header *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	defer m.done(kindGetXAttr, time.Now())
	return m.FileSystem.GetXAttr(cancel, header, attr, dest)
}

func (m *meter) ListXAttr(cancel <-chan struct{}, header *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	defer m.done(kindListXAttr, time.Now())
	return m.FileSystem.ListXAttr(cancel, header, dest)
}

func (m *meter) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	defer m.done(kindMkdir, time.Now())
	return m.FileSystem.Mkdir(cancel, in, name, out)
}

func (m *meter) Unlink(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	defer m.done(kindUnlink, time.Now())
	return m.FileSystem.Unlink(cancel, header, name)
}

func (m *meter) Rmdir(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	defer m.done(kindRmdir, time.Now())
	return m.FileSystem.Rmdir(cancel, header, name)
}

func (m *meter) Rename(cancel <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	defer m.done(kindRename, time.Now())
	return m.FileSystem.Rename(cancel, in, from, to)
}

func (m *meter) StatFs(cancel <-chan struct{}, header *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	defer m.done(kindStatFs, time.Now())
	return m.FileSystem.StatFs(cancel, header, out)
}
