package fusefs

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

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
