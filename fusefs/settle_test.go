package fusefs

import (
	"context"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/versionlog"
)

// TestReadsMatchTheSizeTold holds that the kernel gets bytes of the version
// whose size it was told, and of the next one as soon as it has asked.
func TestReadsMatchTheSizeTold(t *testing.T) {
	fs, slow := newSlow(t, 1, 1, 0)
	s := fs.stores[0]
	n := s.find("/dir000/file000")
	n.lookups = 1 // as if the kernel had looked it up
	read := func(thread uint32) string {
		t.Helper()
		result, status := fs.Read(nil, &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: n.id, Caller: fuse.Caller{Pid: thread}}}, make([]byte, 4096))
		if !status.Ok() {
			t.Fatal(status)
		}
		data, _ := result.Bytes(nil)
		return string(data)
	}
	stat := func(thread uint32) uint64 {
		t.Helper()
		var out fuse.AttrOut
		if status := fs.GetAttr(nil, &fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: n.id, Caller: fuse.Caller{Pid: thread}}}, &out); !status.Ok() {
			t.Fatal(status)
		}
		return out.Size
	}
	const before = "text of /dir000/file000"
	if size := stat(1); size != uint64(len(before)) || read(1) != before {
		t.Fatalf("there are %d bytes: %q", size, read(1))
	}
	const after = before + ", and more of it"
	d, err := slow.Put(context.Background(), []byte(after))
	if err != nil {
		t.Fatal(err)
	}
	old := *n.head
	v := *n.head
	v.ID, v.Seq, v.Digest, v.Size, v.Op, v.Time = "memver_2", v.Seq+1, d, int64(len(after)), versionlog.OpModified, v.Time.Add(time.Second)
	fs.mu.Lock()
	s.apply(&versionlog.Commit{Seq: v.Seq, Versions: []versionlog.Version{v}})
	fs.mu.Unlock()
	if got := read(1); got != before {
		t.Errorf("before the notice a read gets %q", got)
	}
	fs.notify.mu.Lock()
	fs.notify.sent = n.notice // as if the notifier had sent it
	queued := fs.notify.queued
	fs.notify.mu.Unlock()
	if got := read(1); got != before {
		t.Errorf("who has seen the old size gets %q after the notice", got)
	}
	for n.before.Load() != nil {
		time.Sleep(time.Millisecond)
	}
	fs.mu.RLock() // until the notice is queued, too
	fs.notify.mu.Lock()
	if fs.notify.queued == queued {
		t.Error("what a mapping reads after the notice is not dropped later")
	}
	fs.notify.mu.Unlock()
	fs.mu.RUnlock()
	if got := read(1); got != after {
		t.Errorf("a mapping, which asks for no size, gets %q then", got)
	}
	n.before.Store(&old) // as before the notice
	if size := stat(1); size != uint64(len(after)) {
		t.Errorf("the new size is %d", size)
	}
	if got := read(1); got != after {
		t.Errorf("who has the new size reads %q", got)
	}
	if got := read(2); got != after {
		t.Errorf("another reads %q", got)
	}
	if !n.news.Load().settled() {
		t.Error("another thread did not wait until the first had taken the new size in")
	}
}
