package fusefs

import (
	"context"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
	"mneme/fusefs/tree"
	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// fates are as likely as commits go well or not at random.
var fates = []logfault.Fate{
	logfault.Made, logfault.Made, logfault.Made, logfault.Made, logfault.Made, logfault.Made, logfault.Unheard, logfault.Unmade,
}

const slowPage = 2

// rig is a store, a mount of it whose requests the test makes itself, and
// another session.
type rig struct {
	*testing.T
	log   *logfault.Log
	blobs cas.Store
	fs    *fileSystem
	s     *store
	other *memory.Store
	stop  context.CancelFunc

	kernel *fakeKernel // of a mount that has taken another over
}

// archive archives the store.
func (r *rig) archive() {
	r.must(memory.NewLibrary(r.log, nil).ArchiveStore(r.Context(), r.s.memory.Info().ID, versionlog.Actor{}))
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// write is the other session's.
func (r *rig) write(path, text string) {
	r.Helper()
	_, err := r.other.Write(r.Context(), path, []byte(text), versionlog.ExpectAny())
	r.must(err)
}

// remove is the other session's.
func (r *rig) remove(path string) {
	r.Helper()
	_, err := r.other.Remove(r.Context(), path, versionlog.ExpectAny())
	r.must(err)
}

func header(id uint64) fuse.InHeader { return fuse.InHeader{NodeId: id} }

// lookup goes down a path as the kernel does.
func (r *rig) lookup(path string) (fuse.EntryOut, fuse.Status) {
	out := fuse.EntryOut{NodeId: r.s.tree.Root().ID()}
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name == "" {
			continue
		}
		in := header(out.NodeId)
		out = fuse.EntryOut{}
		if status := r.front().Lookup(nil, &in, name, &out); !status.Ok() || out.NodeId == 0 {
			if status.Ok() {
				status = fuse.ENOENT // a negative entry
			}
			return out, status
		}
	}
	return out, fuse.OK
}

func (r *rig) wantLookup(path string, want fuse.Status) fuse.EntryOut {
	r.Helper()
	out, status := r.lookup(path)
	if status != want {
		r.Errorf("lookup of %s: %v, want %v", path, status, want)
	}
	return out
}

// parent is the id of the directory a path lies in, and its name there.
func (r *rig) parent(path string) (uint64, string) {
	r.Helper()
	dir, name := tree.Split(path)
	out, status := r.lookup(dir)
	if !status.Ok() {
		r.Fatalf("lookup of %s: %v", dir, status)
	}
	return out.NodeId, name
}

// names lists a directory.
func (r *rig) names(dir string) ([]string, fuse.Status) {
	entry, status := r.lookup(dir)
	if !status.Ok() {
		return nil, status
	}
	var open fuse.OpenOut
	if status := r.fs.OpenDir(nil, &fuse.OpenIn{InHeader: header(entry.NodeId)}, &open); !status.Ok() && status != fuse.ENOSYS {
		return nil, status
	}
	in := &fuse.ReadIn{InHeader: header(entry.NodeId), Fh: open.Fh}
	var names []string
	var above uint64
	status = r.fs.readDir(nil, in, func(e dirEntry) bool {
		switch e.name {
		case ".":
		case "..":
			above = e.id
		default:
			names = append(names, e.name)
		}
		return true
	})
	r.fs.ReleaseDir(&fuse.ReleaseIn{Fh: open.Fh})
	if want := r.above(dir); status.Ok() && above != want {
		r.Errorf("above %s is node %d, want %d", dir, above, want)
	}
	return names, status
}

// above is the number of the directory that a directory is in.
func (r *rig) above(dir string) uint64 {
	if dir = path.Clean("/" + dir); dir == "/" {
		return fuse.FUSE_ROOT_ID
	}
	id, _ := r.parent(dir)
	return id
}

func (r *rig) wantNames(dir string, want ...string) {
	r.Helper()
	got, status := r.names(dir)
	if !status.Ok() || !slices.Equal(got, want) {
		r.Errorf("%s holds %q (%v), want %q", dir, got, status, want)
	}
}

// open opens the file that the kernel knows by an id.
func (r *rig) open(id uint64, flags uint32) (fh uint64, status fuse.Status) {
	var out fuse.OpenOut
	if status = r.front().Open(nil, &fuse.OpenIn{InHeader: header(id), Flags: flags}, &out); status == fuse.ENOSYS {
		status = fuse.OK // the kernel opens it by itself
	}
	return out.Fh, status
}

// read returns the beginning of an open file.
func (r *rig) read(id, fh uint64) string {
	r.Helper()
	result, status := r.front().Read(nil, &fuse.ReadIn{InHeader: header(id), Fh: fh}, make([]byte, 4096))
	if !status.Ok() {
		r.Errorf("read: %v", status)
		return ""
	}
	data, _ := result.Bytes(nil)
	return string(data)
}

// close ends a handle as a program does, with the result of its close.
func (r *rig) close(fh uint64) fuse.Status {
	status := r.fs.Flush(nil, &fuse.FlushIn{Fh: fh})
	r.fs.Release(nil, &fuse.ReleaseIn{Fh: fh})
	return status
}

// save writes a file as a program does; the result is that of the first call
// that fails.
func (r *rig) save(path, text string, flags uint32) fuse.Status {
	r.Helper()
	dir, name := r.parent(path)
	var created fuse.CreateOut
	var fh uint64
	if entry, status := r.lookup(path); status.Ok() && flags&syscall.O_EXCL == 0 {
		if fh, status = r.open(entry.NodeId, syscall.O_WRONLY|syscall.O_TRUNC); !status.Ok() {
			return status
		}
	} else {
		in := &fuse.CreateIn{InHeader: header(dir), Flags: syscall.O_WRONLY | syscall.O_CREAT | flags, Mode: 0o644}
		if status := r.fs.Create(nil, in, name, &created); !status.Ok() {
			return status
		}
		fh = created.Fh
	}
	_, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh}, []byte(text))
	if status.Ok() {
		status = r.fs.Flush(nil, &fuse.FlushIn{Fh: fh})
	}
	r.fs.Release(nil, &fuse.ReleaseIn{Fh: fh})
	return status
}

// truncate cuts the file that the kernel knows by an id, as truncate(2) does.
func (r *rig) truncate(id, size uint64) fuse.Status {
	in := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: header(id), Valid: fuse.FATTR_SIZE, Size: size}}
	return r.fs.SetAttr(nil, in, &fuse.AttrOut{})
}

func (r *rig) rename(from, to string, flags uint32) fuse.Status {
	r.Helper()
	fromDir, oldName := r.parent(from)
	toDir, newName := r.parent(to)
	return r.fs.Rename(nil, &fuse.RenameIn{InHeader: header(fromDir), Newdir: toDir, Flags: flags}, oldName, newName)
}

// wantText opens a file and reads it.
func (r *rig) wantText(path, want string) {
	r.Helper()
	entry := r.wantLookup(path, fuse.OK)
	fh, status := r.open(entry.NodeId, syscall.O_RDONLY)
	if !status.Ok() {
		r.Errorf("open of %s: %v", path, status)
		return
	}
	if got := r.read(entry.NodeId, fh); got != want {
		r.Errorf("%s holds %q, want %q", path, got, want)
	}
	r.close(fh)
}

// inHistory reports whether some version of the store holds a text.
func (r *rig) inHistory(text string) bool {
	for c, err := range r.other.Commits(r.Context(), 0) {
		r.must(err)
		for _, v := range c.Versions {
			if v.Live() && !v.IsDir() {
				data, err := r.other.Content(r.Context(), v)
				r.must(err)
				if strings.Contains(string(data), text) {
					return true
				}
			}
		}
	}
	return false
}

// writeAt writes through a handle as a thread does.
func (r *rig) writeAt(fh uint64, thread, flags uint32, offset uint64, text string) {
	r.Helper()
	in := &fuse.WriteIn{InHeader: fuse.InHeader{Caller: fuse.Caller{Pid: thread}}, Fh: fh, Flags: flags, Offset: offset}
	if _, status := r.fs.Write(nil, in, []byte(text)); !status.Ok() {
		r.Errorf("write %q: %v", text, status)
	}
}

// appendTo writes to the end of the file through a handle.
func (r *rig) appendTo(fh uint64, text string) {
	r.Helper()
	r.writeAt(fh, 0, syscall.O_APPEND, 0, text)
}

// mustOpen opens the file at a path.
func (r *rig) mustOpen(path string, flags uint32) (fh uint64) {
	r.Helper()
	fh, status := r.open(r.wantLookup(path, fuse.OK).NodeId, flags)
	if !status.Ok() {
		r.Fatalf("open of %s: %v", path, status)
	}
	return fh
}

// wantStored compares a memory's newest version with a text.
func (r *rig) wantStored(path, want string) {
	r.Helper()
	v, err := r.other.Head(r.Context(), path)
	r.must(err)
	data, err := r.other.Content(r.Context(), v)
	r.must(err)
	if string(data) != want {
		r.Errorf("the store has %q at %s, want %q", data, path, want)
	}
}

// dirty opens a file, made if there is none, writes to it, and returns its
// handle.
func (r *rig) dirty(path, text string) uint64 {
	r.Helper()
	return r.dirtyWith(path, text, syscall.O_WRONLY)
}

// appended is dirty for appending.
func (r *rig) appended(path, text string) uint64 {
	r.Helper()
	return r.dirtyWith(path, text, syscall.O_WRONLY|syscall.O_APPEND)
}

func (r *rig) dirtyWith(path, text string, flags uint32) uint64 {
	r.Helper()
	var fh uint64
	status := fuse.OK
	if entry, found := r.lookup(path); found.Ok() {
		fh, status = r.open(entry.NodeId, flags)
	} else {
		dir, name := r.parent(path)
		var created fuse.CreateOut
		in := &fuse.CreateIn{InHeader: header(dir), Flags: flags | syscall.O_CREAT, Mode: 0o644}
		status = r.fs.Create(nil, in, name, &created)
		fh = created.Fh
	}
	if status.Ok() {
		_, status = r.fs.Write(nil, &fuse.WriteIn{Fh: fh, Flags: flags}, []byte(text))
	}
	if !status.Ok() {
		r.Fatalf("write to %s: %v", path, status)
	}
	return fh
}

// hide reads a memory and renames it as an editor does that makes a backup.
func (r *rig) hide(path, backup string) {
	r.Helper()
	r.readOnce(path)
	if status := r.rename(path, backup, 0); !status.Ok() {
		r.Fatal(status)
	}
}

func (r *rig) rmdir(path string) {
	r.Helper()
	dir, name := r.parent(path)
	in := header(dir)
	if status := r.fs.Rmdir(nil, &in, name); !status.Ok() {
		r.Errorf("rmdir %s: %v", path, status)
	}
}

func (r *rig) move(from, to string) {
	r.Helper()
	_, err := r.other.Rename(r.Context(), from, to, nil)
	r.must(err)
}

func (r *rig) unlink(path string) fuse.Status {
	dir, name := r.parent(path)
	in := header(dir)
	return r.fs.Unlink(nil, &in, name)
}

func (r *rig) mkdir(path string) fuse.Status {
	dir, name := r.parent(path)
	var out fuse.EntryOut
	return r.fs.Mkdir(nil, &fuse.MkdirIn{InHeader: header(dir), Mode: 0o755}, name, &out)
}

// readOnce reads a file as cat does.
func (r *rig) readOnce(path string) {
	r.Helper()
	entry := r.wantLookup(path, fuse.OK)
	fh, status := r.open(entry.NodeId, syscall.O_RDONLY)
	if !status.Ok() {
		r.Fatal(status)
	}
	r.read(entry.NodeId, fh)
	r.close(fh)
}

// kept reports whether some conflict keeps a text.
func (r *rig) kept(text string) bool {
	all, err := r.s.kept.ListAll()
	r.must(err)
	return slices.ContainsFunc(all, func(about conflict.About) bool {
		data, _ := r.s.kept.Read(about.ID, conflict.YoursFile)
		return strings.Contains(string(data), text)
	})
}

func (r *rig) othersDir(path string) {
	r.Helper()
	_, err := r.other.MakeDir(r.Context(), path, versionlog.ExpectAbsent(), nil)
	r.must(err)
}
