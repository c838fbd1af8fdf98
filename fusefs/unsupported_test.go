package fusefs

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/session"
)

// A refusal leaves one line for each kind, which says what would be right.
func TestRefusalIsNoted(t *testing.T) {
	r := newRig(t, "/file")
	root, file := header(r.s.tree.Root().ID()), header(r.wantLookup("/file", fuse.OK).NodeId)
	out := &fuse.EntryOut{}
	setAttr := func(valid, mode, uid uint32) fuse.Status {
		in := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: file, Valid: valid, Mode: mode}}
		in.Owner.Uid = uid
		return r.fs.SetAttr(nil, in, &fuse.AttrOut{})
	}
	create := &fuse.CreateIn{InHeader: root, Flags: syscall.O_WRONLY | syscall.O_CREAT, Mode: 0o4755}
	for range 2 {
		for i, status := range []fuse.Status{
			r.fs.Symlink(nil, &root, "/etc/passwd", "sym", out),
			r.fs.Symlink(nil, &root, "x", "another \u202e sym", out),
			r.fs.Link(nil, &fuse.LinkIn{InHeader: root, Oldnodeid: file.NodeId}, "link", out),
			r.fs.Mknod(nil, &fuse.MknodIn{InHeader: root, Mode: syscall.S_IFIFO | 0o600}, "pipe", out),
			setAttr(fuse.FATTR_MODE, 0o4755, 0),
			setAttr(fuse.FATTR_UID, 0, 4711),
			r.fs.Create(nil, create, "set", &fuse.CreateOut{}),
			r.fs.Symlink(nil, &fuse.InHeader{NodeId: r.wantLookup("/.mneme", fuse.OK).NodeId}, "x", "y", out),
		} {
			want := fuse.EPERM
			if i == 7 {
				want = fuse.EROFS
			}
			if status != want {
				t.Errorf("refusal %d: %v, want %v", i, status, want)
			}
		}
		entries := r.s.errors.Entries()
		for i := range entries { // else the next is the kernel's second try
			entries[i].At = entries[i].At.Add(-time.Minute)
		}
		r.s.errors = &session.Journal{}
		r.s.errors.Restore(entries)
	}
	times := func(n int) string { return fmt.Sprintf(" (%v) (%d times)", syscall.EPERM, n) }
	wantTexts(t, r.s.errors,
		`create "notes:/another \u202e sym": a store has no symbolic links; copy the file, or write its place into a file`+times(2),
		`create "notes:/link": a store has no hard links; copy the file`+times(2),
		`create "notes:/pipe": a store has no devices, pipes or sockets; make them elsewhere, such as in /tmp`+times(2),
		`change "notes:/file": all files of a mount have one owner; leave it as it is`+times(2),
		`change "notes:/set": a store has no setuid, setgid or sticky files; leave these bits out`+times(2),
	)
}
