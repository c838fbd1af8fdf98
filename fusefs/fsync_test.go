package fusefs

import (
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
	"mneme/session/conflict"
)

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

func (r *rig) wantSynced(fh uint64, want fuse.Status) {
	r.Helper()
	if status := r.fs.Fsync(nil, &fuse.FsyncIn{Fh: fh}); status != want {
		r.Errorf("fsync: %v, want %v", status, want)
	}
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

// TestFsyncIsAboutTheFile: fsync through any descriptor of a file commits what all
// its writers have written.
func TestFsyncIsAboutTheFile(t *testing.T) {
	const appending = syscall.O_WRONLY | syscall.O_APPEND
	t.Run("by a reader", func(t *testing.T) {
		r := newRig(t, "/f")
		writer, reader := r.mustOpen("/f", appending), r.mustOpen("/f", syscall.O_RDONLY)
		r.appendTo(writer, "+1")
		r.wantSynced(reader, fuse.OK)
		r.wantStored("/f", "/f+1")
	})
	t.Run("by a writer who has written nothing", func(t *testing.T) {
		r := newRig(t, "/f")
		writer, other := r.mustOpen("/f", syscall.O_RDWR), r.mustOpen("/f", syscall.O_RDWR)
		r.writeAt(writer, 0, 0, 0, "mine")
		r.wantSynced(other, fuse.OK)
		r.wantStored("/f", "mine")
	})
	t.Run("of an inode that another session's version has followed", func(t *testing.T) {
		for _, first := range []string{"the writer", "the reader"} {
			r := newRig(t, "/f")
			old := map[string]uint64{"the writer": r.mustOpen("/f", appending), "the reader": r.mustOpen("/f", syscall.O_RDONLY)}
			r.write("/f", "theirs")
			r.follow()
			writer, reader := old["the writer"], r.mustOpen("/f", syscall.O_RDONLY)
			if first == "the reader" {
				writer, reader = r.mustOpen("/f", appending), old["the reader"]
			}
			r.appendTo(writer, "+1")
			r.wantSynced(reader, fuse.OK)
			r.wantStored("/f", "theirs+1")
		}
	})
	t.Run("of two writers, one of whom was overtaken", func(t *testing.T) {
		kept := conflict.New(t.TempDir()) // first, so that it is removed last
		r := newRig(t, "/f")
		r.s.kept = kept
		loser := r.mustOpen("/f", syscall.O_RDWR)
		r.writeAt(loser, 0, 0, 0, "lost")
		r.write("/f", "theirs")
		r.follow()
		writer, reader := r.mustOpen("/f", appending), r.mustOpen("/f", syscall.O_RDONLY)
		r.appendTo(writer, "+1")
		r.wantSynced(reader, fuse.Status(DefaultConflictErrno)) // once somebody has to hear of it
		if !r.kept("lost") {
			t.Error("what lost the race is not kept")
		}
		r.wantStored("/f", "theirs+1")
		r.appendTo(writer, "+2")
		r.wantSynced(reader, fuse.OK)
		r.wantStored("/f", "theirs+1+2")
		r.wantSynced(loser, fuse.Status(DefaultConflictErrno))
	})
	t.Run("in an outage", func(t *testing.T) {
		r := newRig(t, "/f")
		writer, reader := r.mustOpen("/f", appending), r.mustOpen("/f", syscall.O_RDONLY)
		r.appendTo(writer, "+1")
		r.log.SetFate(func() logfault.Fate { return logfault.Unheard })
		r.wantSynced(reader, fuse.EIO)
		r.log.SetFate(nil)
		r.wantSynced(reader, fuse.OK)
		r.wantStored("/f", "/f+1")
	})
	t.Run("of what was removed, and of another file", func(t *testing.T) {
		r := newRig(t, "/f", "/g")
		writer, reader := r.mustOpen("/f", appending), r.mustOpen("/g", syscall.O_RDONLY)
		r.appendTo(writer, "+1")
		r.wantSynced(reader, fuse.OK)
		r.wantStored("/f", "/f")
		in := header(r.s.root.id)
		if status := r.fs.Unlink(nil, &in, "f"); !status.Ok() {
			t.Fatal(status)
		}
		r.wantSynced(writer, fuse.OK)
		r.wantLookup("/f", fuse.ENOENT)
	})
}
