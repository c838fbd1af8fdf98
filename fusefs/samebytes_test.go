package fusefs

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
)

// TestEqualBytesAreNoConflict writes what another session writes, too, whether the mount
// hears of that before or after.
func TestEqualBytesAreNoConflict(t *testing.T) {
	for _, followed := range []bool{false, true} {
		t.Run(fmt.Sprint(followed), func(t *testing.T) {
			r := newRig(t, "/f")
			r.must(r.s.walk(t.Context()))
			r.readOnce("/f")
			fh := r.dirty("/f", "same")
			r.write("/f", "same")
			if followed {
				r.follow()
			}
			if status := r.close(fh); !status.Ok() {
				t.Errorf("close: %v", status)
			}
			r.wantAsLog()
		})
		t.Run(fmt.Sprint("rename ", followed), func(t *testing.T) {
			r := newRig(t, "/f")
			r.must(r.s.walk(t.Context()))
			r.readOnce("/f")
			r.saveTemporary("/f.tmp")
			r.write("/f", "mine")
			if followed {
				r.follow()
			}
			if status := r.rename("/f.tmp", "/f", 0); !status.Ok() {
				t.Errorf("rename: %v", status)
			}
		})
	}
}

// TestRenameOverTheSameBytes renames over a file into which another session
// has put the very same bytes: the session knows what is there.
func TestRenameOverTheSameBytes(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.walk(t.Context()))
	r.readOnce("/f")
	r.saveTemporary("/f.tmp")
	r.log.Next(logfault.BeforeCommit, func() { r.write("/f", "mine") }) // the very same bytes
	if status := r.rename("/f.tmp", "/f", 0); !status.Ok() {
		t.Fatal(status)
	}
	r.wantText("/f", "mine")
	r.follow()
	if status := r.save("/f", "mine again", 0); !status.Ok() {
		t.Errorf("saving what the session has just renamed there: %v", status)
	}
	r.wantAsLog()
}

// renamedOverSameBytes renames /a over /b, which has the same bytes; once that is in
// the log, and before the mount hears of it, another session does something.
func renamedOverSameBytes(t *testing.T, then func(*rig)) *rig {
	r := newRig(t, "/a", "/b")
	r.must(r.s.walk(t.Context()))
	r.readOnce("/a")
	r.readOnce("/b")
	r.write("/b", "/a")
	r.follow()
	r.log.Next(logfault.AfterCommit, func() { then(r) })
	if status := r.rename("/a", "/b", 0); !status.Ok() {
		t.Errorf("rename: %v", status)
	}
	return r
}

// TestRenameOverTheSameBytesThatChange renames a memory over another one with the same
// bytes, which another session changes once it is done, before the mount hears of it.
func TestRenameOverTheSameBytesThatChange(t *testing.T) {
	for name, then := range map[string]func(*rig){
		"changed": func(r *rig) { r.write("/b", "theirs") },
		"removed": func(r *rig) { r.remove("/b") },
	} {
		t.Run(name, func(t *testing.T) {
			r := renamedOverSameBytes(t, then)
			want := syscall.Errno(0)
			if name == "changed" {
				r.wantText("/b", "theirs") // who reads it knows it
				r.write("/b", "theirs again")
				want = DefaultConflictErrno
			}
			r.follow()
			if status := r.save("/b", "mine", 0); status != fuse.Status(want) {
				t.Errorf("saving it: %v, want %v", status, want)
			}
			r.wantAsLog()
		})
	}
}

// TestRenameDoesNotKnowWhatFollows is TestRenameOverTheSameBytesThatChange, and saves
// what the session has not read.
func TestRenameDoesNotKnowWhatFollows(t *testing.T) {
	r := renamedOverSameBytes(t, func(r *rig) { r.write("/b", "theirs") })
	if status := r.save("/b", "mine", 0); status != fuse.Status(DefaultConflictErrno) {
		t.Errorf("saving what the session has not read: %v, want a conflict", status)
	}
	r.wantLookup("/a", fuse.ENOENT)
	r.wantAsLog()
}

// TestRenameOverTheSameBytesThatGo renames a temporary file over the same bytes, which
// another session removes, as the mount hears, before it has looked at them.
func TestRenameOverTheSameBytesThatGo(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.walk(t.Context()))
	r.readOnce("/f")
	r.saveTemporary("/f.tmp")
	r.log.Next(logfault.BeforeCommit, func() {
		r.write("/f", "mine")
		r.log.Next(logfault.AfterHead, func() { r.remove("/f"); r.follow() })
	})
	if status := r.rename("/f.tmp", "/f", 0); !status.Ok() {
		t.Fatal(status)
	}
	r.wantAsLog()
}
