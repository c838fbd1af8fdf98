package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

// indexSuffix makes the name of the write-ahead log's index, which all processes
// share, of that of the database.
const indexSuffix = "-shm"

// layerName is by what name connections find the layer.
const layerName = "mneme"

func init() { vfs.Register(layerName, layer{vfs.Find("")}) }

// layer stands between SQLite and the files. It makes them private to the user,
// and knows of each database its write-ahead log.
type layer struct{ vfs.VFS }

// OpenFilename implements vfs.VFSFilename.
func (l layer) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if flags&vfs.OPEN_CREATE != 0 {
		makePrivate(name.String())
		if flags&vfs.OPEN_WAL != 0 { // its index is about to be made, which SQLite's library makes readable to all
			makePrivate(name.Database() + indexSuffix)
		}
	}
	opened, got, err := vfsutil.WrapOpenFilename(l.VFS, name, flags)
	if flags&vfs.OPEN_WAL != 0 && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		// SQLite asks for write access whenever a database is opened, and reads with the access
		// that it gets.
		opened, got, err = vfsutil.WrapOpenFilename(l.VFS, name, flags&^(vfs.OPEN_READWRITE|vfs.OPEN_CREATE)|vfs.OPEN_READONLY)
	}
	if err != nil {
		return opened, got, err
	}
	flags = got
	file := file{opened}
	switch {
	case flags&vfs.OPEN_MAIN_DB != 0:
		return &mainFile{file: file}, flags, nil
	case flags&vfs.OPEN_WAL != 0:
		ahead := &aheadFile{file: file}
		if main, ok := vfsutil.UnwrapFile[*mainFile](name.DatabaseFile()); ok {
			main.ahead = ahead
		}
		return ahead, flags, nil
	}
	return file, flags, nil
}

// makePrivate makes an empty file, if there is none, that only its user can read.
// Should that fail, SQLite meets the reason.
func makePrivate(name string) {
	if f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		_ = f.Close()
	}
}

// file is any file of a database's.
type file struct{ vfs.File }

// WriteAt implements vfs.File. SQLite is told of a full disk and of one that has gone
// read-only, which its library takes for broken ones.
func (f file) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		err = sqlite3.FULL
	case errors.Is(err, syscall.EROFS):
		err = sqlite3.READONLY_DIRECTORY
	}
	return n, err
}

// mainFile is the file of a database. It hands on what SQLite asks of it.
type mainFile struct {
	file
	ahead *aheadFile // nil until the write-ahead log is opened
}

var (
	_ vfs.FileSharedMemory       = (*mainFile)(nil)
	_ vfs.FileLockState          = (*mainFile)(nil)
	_ vfs.FileHasMoved           = (*mainFile)(nil)
	_ vfs.FileSizeHint           = (*mainFile)(nil)
	_ vfs.FilePersistWAL         = (*mainFile)(nil)
	_ vfs.FilePowersafeOverwrite = (*mainFile)(nil)
)

func (m *mainFile) SharedMemory() vfs.SharedMemory  { return vfsutil.WrapSharedMemory(m.File) }
func (m *mainFile) LockState() vfs.LockLevel        { return vfsutil.WrapLockState(m.File) }
func (m *mainFile) HasMoved() (bool, error)         { return vfsutil.WrapHasMoved(m.File) }
func (m *mainFile) SizeHint(size int64) error       { return vfsutil.WrapSizeHint(m.File, size) }
func (m *mainFile) PersistWAL() bool                { return vfsutil.WrapPersistWAL(m.File) }
func (m *mainFile) SetPersistWAL(keep bool)         { vfsutil.WrapSetPersistWAL(m.File, keep) }
func (m *mainFile) PowersafeOverwrite() bool        { return vfsutil.WrapPowersafeOverwrite(m.File) }
func (m *mainFile) SetPowersafeOverwrite(safe bool) { vfsutil.WrapSetPowersafeOverwrite(m.File, safe) }

// aheadFile is a write-ahead log. SQLite writes every page of a transaction with
// two calls. While a transaction is committed they are gathered, and written with one call
// when the log is synced, before other processes see the transaction: they read only the
// part of the log that its index has (the file with -shm), and the index is written after
// the sync. Nothing stays gathered when the commit is over, since the lock that keeps other
// writers away ends with it.
type aheadFile struct {
	file
	gathering bool
	gathered  []byte
	at        int64 // where gathered begins
}

// maxGathered is how many bytes are gathered at most.
const maxGathered = 1 << 20

// WriteAt implements vfs.File.
func (a *aheadFile) WriteAt(p []byte, off int64) (int, error) {
	if len(a.gathered) > 0 && (off != a.at+int64(len(a.gathered)) || len(a.gathered)+len(p) > maxGathered) {
		if err := a.flush(); err != nil {
			return 0, err
		}
	}
	if !a.gathering {
		return a.file.WriteAt(p, off)
	}
	if len(a.gathered) == 0 {
		a.at = off
	}
	a.gathered = append(a.gathered, p...)
	return len(p), nil
}

// flush writes what is gathered.
func (a *aheadFile) flush() error {
	if len(a.gathered) == 0 {
		return nil
	}
	_, err := a.file.WriteAt(a.gathered, a.at)
	a.gathered = a.gathered[:0]
	return err
}

// drop forgets what is gathered, and a large buffer for it.
func (a *aheadFile) drop() {
	a.gathered = a.gathered[:0]
	if cap(a.gathered) > maxGathered/4 { // rarely needed again
		a.gathered = nil
	}
}

// ReadAt implements vfs.File.
func (a *aheadFile) ReadAt(p []byte, off int64) (int, error) {
	if err := a.flush(); err != nil {
		return 0, err
	}
	return a.File.ReadAt(p, off)
}

// Sync implements vfs.File.
func (a *aheadFile) Sync(flags vfs.SyncFlag) error {
	if err := a.flush(); err != nil {
		return err
	}
	return a.File.Sync(flags)
}

// Size implements vfs.File.
func (a *aheadFile) Size() (int64, error) {
	if err := a.flush(); err != nil {
		return 0, err
	}
	return a.File.Size()
}

// Truncate implements vfs.File.
func (a *aheadFile) Truncate(size int64) error {
	if err := a.flush(); err != nil {
		return err
	}
	return a.File.Truncate(size)
}
