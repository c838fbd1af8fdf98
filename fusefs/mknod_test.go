package fusefs

import (
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
)

// TestMknod makes files without opening them: one is in the history when the call
// returns, and of one that is not nothing is left.
func TestMknod(t *testing.T) {
	r := newRig(t)
	r.must(r.s.tree.Walk(t.Context()))
	mknod := func(name string) (fuse.EntryOut, fuse.Status) {
		in := &fuse.MknodIn{InHeader: header(r.s.tree.Root().ID()), Mode: syscall.S_IFREG | 0o640}
		var out fuse.EntryOut
		status := r.fs.Mknod(nil, in, name, &out)
		return out, status
	}
	out, status := mknod("f")
	if !status.Ok() || out.Mode != syscall.S_IFREG|0o640 || out.NodeId != r.wantLookup("/f", fuse.OK).NodeId {
		t.Errorf("mknod: %v, %+v", status, out)
	}
	r.wantAsLog()
	if _, data, err := r.other.Read(t.Context(), "/f"); err != nil || len(data) != 0 {
		t.Errorf("the log has %q (%v)", data, err)
	}
	nodes, _ := r.inUse()
	r.log.SetFate(func() logfault.Fate { return logfault.Unmade })
	if _, status := mknod("g"); status != fuse.EIO {
		t.Errorf("mknod without the log: %v, want EIO", status)
	}
	r.wantLookup("/g", fuse.ENOENT)
	if left, handles := r.inUse(); left != nodes || handles != 0 {
		t.Errorf("%d nodes and %d handles are left, want %d and none", left, handles, nodes)
	}
}
