package fusefs

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
)

// TestNoPushIntoWhatIsWritten: once a push that is under way has ended, the kernel's pages of a
// file belong to the program that begins to write it, and from then on.
func TestNoPushIntoWhatIsWritten(t *testing.T) {
	begin := map[string]func(r *rig, id uint64) fuse.Status{
		"open": func(r *rig, id uint64) fuse.Status {
			_, status := r.open(id, syscall.O_WRONLY)
			return status
		},
		"truncate": func(r *rig, id uint64) fuse.Status {
			return r.truncate(id, 1)
		},
		"create": func(r *rig, _ uint64) fuse.Status {
			dir, name := r.parent("/f")
			in := &fuse.CreateIn{InHeader: header(dir), Flags: syscall.O_WRONLY | syscall.O_CREAT, Mode: 0o644}
			return r.fs.Create(nil, in, name, &fuse.CreateOut{})
		},
	}
	for name, begin := range begin {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "/f")
			r.must(r.s.tree.Walk(t.Context()))
			id := r.wantLookup("/f", fuse.OK).NodeId
			head := r.head("/f")
			begun := make(chan struct{})
			var pushes sync.WaitGroup
			r.ahead().Connect(&fakeKernel{stores: func(uint64, []byte) bool {
				pushes.Go(func() {
					if status := begin(r, id); !status.Ok() {
						t.Errorf("%s: %v", name, status)
					}
					close(begun)
				})
				select {
				case <-begun:
					t.Errorf("%s returned while the kernel was given pages", name)
				case <-time.After(50 * time.Millisecond):
				}
				return true
			}})
			if !r.push("/f", head, []byte("/f")) {
				t.Error("what nobody writes was not pushed")
			}
			pushes.Wait()
			r.ahead().Connect(&fakeKernel{stores: func(uint64, []byte) bool {
				t.Error("what is written was pushed")
				return true
			}})
			for _, version := range []*memory.Head{head, r.head("/f")} {
				r.push("/f", version, []byte("/f"))
			}
		})
	}
}

// pushing has a push into a file that the kernel knows under way, until that is ended, or
// the test.
func (r *rig) pushing(path string) (ended func()) {
	head := r.head(path)
	begun, end := make(chan struct{}), make(chan struct{})
	r.ahead().Connect(&fakeKernel{stores: func(uint64, []byte) bool {
		close(begun)
		<-end
		return true
	}})
	var push sync.WaitGroup
	push.Go(func() { r.push(path, head, []byte(path)) })
	<-begun
	ended = sync.OnceFunc(func() {
		close(end)
		push.Wait()
	})
	r.Cleanup(ended)
	return ended
}

// TestPushIntoAnotherVersion has the kernel forget a file, and another session change
// it, while its pages are pushed.
func TestPushIntoAnotherVersion(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.tree.Walk(t.Context()))
	id := r.wantLookup("/f", fuse.OK).NodeId
	head := r.head("/f")
	r.ahead().Connect(&fakeKernel{stores: func(node uint64, data []byte) bool {
		r.fs.Forget(id, 1) // before the kernel gets the pages
		r.write("/f", "no")
		r.follow()
		if r.wantLookup("/f", fuse.OK).NodeId == node && string(data) != "no" {
			t.Errorf("the inode of version 2 is given %q, the bytes of version 1", data)
		}
		return true
	}})
	r.push("/f", head, []byte("/f"))
}
