package fusefs

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
)

// TestNoPushIntoWhatIsWritten: the kernel's pages of a file belong to whoever
// begins to write it once a push that is under way has ended, and from then on.
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
			r.must(r.s.walk(t.Context()))
			id := r.wantLookup("/f", fuse.OK).NodeId
			n := r.s.find("/f")
			head := n.head
			begun := make(chan struct{})
			var pushes sync.WaitGroup
			r.fs.storePages = func(node uint64, offset int64, data []byte) fuse.Status {
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
				return fuse.OK
			}
			if !r.fs.push(n, head, []byte("/f")) {
				t.Error("what nobody writes was not pushed")
			}
			pushes.Wait()
			r.fs.storePages = func(uint64, int64, []byte) fuse.Status {
				t.Error("what is written was pushed")
				return fuse.OK
			}
			for _, version := range []*memory.Head{head, n.head} {
				r.fs.push(n, version, []byte("/f"))
			}
		})
	}
}

// TestPushIntoAnotherVersion has the kernel forget a file, and another session change
// it, while its pages are pushed.
func TestPushIntoAnotherVersion(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.walk(t.Context()))
	id := r.wantLookup("/f", fuse.OK).NodeId
	n := r.s.find("/f")
	head := n.head
	r.fs.storePages = func(node uint64, _ int64, data []byte) fuse.Status {
		r.fs.Forget(id, 1) // before the kernel gets the pages
		r.write("/f", "no")
		r.follow()
		if r.wantLookup("/f", fuse.OK).NodeId == node && string(data) != "no" {
			t.Errorf("the inode of version 2 is given %q, the bytes of version 1", data)
		}
		return fuse.OK
	}
	r.fs.push(n, head, []byte("/f"))
}
