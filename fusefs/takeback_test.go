package fusefs

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
	"mneme/versionlog"
)

// TestCutWhereItEnded saves what a program makes of a file that it takes for as
// long as the kernel did before another session made it longer: by its name and
// under another one, whether the session had read the file before or not.
func TestCutWhereItEnded(t *testing.T) {
	for _, read := range []bool{false, true} {
		for _, rename := range []bool{false, true} {
			t.Run(fmt.Sprintf("read %v, rename %v", read, rename), func(t *testing.T) {
				r := newRig(t, "/f")
				r.must(r.s.walk(t.Context()))
				r.wantLookup("/f", fuse.OK)
				if read {
					r.wantText("/f", "/f")
				}
				r.write("/f", "first\n/f")
				r.follow()
				r.wantText("/f", "first\n/f")
				save := func(text string) fuse.Status {
					if !rename {
						return r.save("/f", text, 0)
					}
					if status := r.save("/f.tmp", text, 0); !status.Ok() {
						t.Fatal(status)
					}
					return r.rename("/f.tmp", "/f", 0)
				}
				for range 2 {
					if status := save("fi"); status != fuse.Status(DefaultConflictErrno) {
						t.Errorf("dropping the end: %v, want a conflict", status)
					}
				}
				if status := save("first\nmine\n/f"); !status.Ok() {
					t.Errorf("an edit of all of it: %v", status)
				}
			})
		}
	}
}

// TestReadAgainBeforeTheChangeIsKnown reads a file after a refusal, when the
// mount has not heard of the change that it was refused for: that is no reading
// again.
func TestReadAgainBeforeTheChangeIsKnown(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.walk(t.Context()))
	r.wantText("/f", "/f")
	fh := r.dirtyWith("/f", "mine", syscall.O_WRONLY|syscall.O_TRUNC)
	r.write("/f", "theirs")
	if status := r.close(fh); status != fuse.Status(DefaultConflictErrno) {
		t.Fatal(status)
	}
	r.write("/f", "theirs\nmore")
	r.follow()
	r.wantText("/f", "theirs\nmore")
	if status := r.save("/f", "mine", 0); !status.Ok() {
		t.Errorf("a write that is meant: %v", status)
	}
	r.write("/f", "theirs\nagain")
	r.follow()
	r.wantText("/f", "theirs\nagain")
	if status := r.save("/f", "mine", 0); status != fuse.Status(DefaultConflictErrno) {
		t.Errorf("a write that is not: %v", status)
	}
}

// TestReadAgainAfterARefusedRename saves a file by rename, where another session has
// made one that the mount has not heard of, and once more after reading that.
func TestReadAgainAfterARefusedRename(t *testing.T) {
	r := newRig(t)
	r.must(r.s.walk(t.Context()))
	r.wantLookup("/f", fuse.ENOENT)
	save := func(want fuse.Status) {
		t.Helper()
		status := r.save("/f.tmp", "mine", 0)
		if status.Ok() {
			status = r.rename("/f.tmp", "/f", 0)
		}
		if status != want {
			t.Errorf("a save by rename: %v, want %v", status, want)
		}
	}
	r.write("/f", "theirs") // of which the mount does not hear
	save(fuse.Status(DefaultConflictErrno))
	r.follow()
	r.wantText("/f", "theirs")
	save(fuse.OK)
	r.wantText("/f", "mine")
}

// TestPassIsOfWhatWasRead reads a file after a refusal, and then appends to what
// another session has made of it since: to write over that is not what was meant.
func TestPassIsOfWhatWasRead(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.walk(t.Context()))
	r.wantText("/f", "/f")
	fh := r.dirtyWith("/f", "mine", syscall.O_WRONLY|syscall.O_TRUNC)
	r.write("/f", "theirs\n")
	if status := r.close(fh); status != fuse.Status(DefaultConflictErrno) {
		t.Fatal(status)
	}
	r.follow()
	r.wantText("/f", "theirs\n")
	r.write("/f", "theirs again\n")
	if status := r.close(r.appended("/f", "own\n")); !status.Ok() {
		t.Fatal(status)
	}
	r.follow()
	r.wantText("/f", "theirs again\nown\n")
	if status := r.save("/f", "mine", 0); status != fuse.Status(DefaultConflictErrno) {
		t.Errorf("a write over what was never read: %v, want a conflict", status)
	}
}

// TestChangesAreBounded has a session read file after file, and change after
// change of each.
func TestChangesAreBounded(t *testing.T) {
	r := newRig(t)
	r.must(r.s.walk(t.Context()))
	defer r.locked()()
	seq, kept := uint64(0), 0
	version := func() *memory.Head {
		seq++
		return memory.NewHead(&versionlog.Version{ID: fmt.Sprint(seq), Seq: seq, Digest: versionlog.Digest{byte(seq), byte(seq >> 8), byte(seq >> 16)}, Size: 1})
	}
	var last *node
	for range maxStoreChanges {
		last = r.fs.newNode(r.s, syscall.S_IFREG, time.Now())
		for range 9 {
			last.learn(last.seen.Read(version()))
		}
	}
	for _, n := range r.fs.nodes {
		kept += len(n.seen.Changes())
	}
	if kept > maxStoreChanges || kept < maxStoreChanges/4 {
		t.Errorf("%d changes of the store, want at most %d", kept, maxStoreChanges)
	}
	if len(last.seen.Changes()) == 0 {
		t.Error("no change of the file that was read last")
	}
}
