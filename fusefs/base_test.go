package fusefs

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
	"mneme/session"
)

// TestReadWhileAppending reads a file while the session appends to it: what
// another session then changes, this one may not overwrite unread.
func TestReadWhileAppending(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.walk(t.Context()))
	entry := r.wantLookup("/f", fuse.OK)
	open := func(flags uint32) uint64 {
		t.Helper()
		fh, status := r.open(entry.NodeId, flags)
		if !status.Ok() {
			t.Fatal(status)
		}
		return fh
	}
	fh := open(syscall.O_WRONLY | syscall.O_APPEND)
	if _, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh, Offset: 2, Flags: syscall.O_APPEND}, []byte("mine")); !status.Ok() {
		t.Fatal(status)
	}
	open(syscall.O_RDONLY)
	if status := r.fs.Flush(nil, &fuse.FlushIn{Fh: fh}); !status.Ok() {
		t.Fatal(status)
	}
	r.follow()
	r.write("/f", "theirs")
	r.follow()
	if status := r.save("/f", "an edit of what was read", 0); status != fuse.Status(DefaultConflictErrno) {
		t.Errorf("overwriting another session's change: %v, want a conflict", status)
	}
}

// TestRenameIsRefusedAgain saves by a rename to a name that another session was
// faster to take. A program that tries again must be refused again.
func TestRenameIsRefusedAgain(t *testing.T) {
	r := newRig(t)
	r.must(r.s.walk(t.Context()))
	r.saveTemporary("/f.tmp")
	r.write("/f", "theirs")
	r.wantRefusedAgain("/f.tmp", "/f")
}

// TestRenameOverWhatWasMadeAnewIsRefusedAgain is the same where the file that
// the session meant to replace unread has given way to another one.
func TestRenameOverWhatWasMadeAnewIsRefusedAgain(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.walk(t.Context()))
	r.wantLookup("/f", fuse.OK)
	r.saveTemporary("/f.tmp")
	r.remove("/f")
	r.write("/f", "theirs")
	r.wantRefusedAgain("/f.tmp", "/f")
}

// saveTemporary makes a file that is to be renamed.
func (r *rig) saveTemporary(path string) {
	r.Helper()
	if status := r.close(r.dirty(path, "mine")); !status.Ok() {
		r.Fatal(status)
	}
}

// wantRefusedAgain renames a file twice, as the kernel does. The mount hears of
// what the other session has done only within the first rename.
func (r *rig) wantRefusedAgain(from, to string) {
	r.Helper()
	r.log.Next(logfault.AfterCommit, r.follow)
	for range 2 {
		if status := r.rename(from, to, 0); status != fuse.Status(DefaultConflictErrno) {
			r.Fatalf("rename over another session's file: %v, want a conflict", status)
		}
	}
}

// TestLostIsBounded knows of more paths that are gone than are remembered.
func TestLostIsBounded(t *testing.T) {
	r := newRig(t)
	r.must(r.s.walk(t.Context()))
	for i := range 1<<16 + 10 { // as leave does for every file that was read and that another session removes
		r.s.remember(fmt.Sprint("/f", i), session.Nothing())
	}
	if n := len(r.s.lost); n > 1<<16 {
		t.Errorf("what the session knows of %d paths that are gone is kept", n)
	}
}
