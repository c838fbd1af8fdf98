package fusefs

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/internal/testing/logfault"
	"mneme/versionlog"
)

// TestSessionsWhileLoading: two sessions change a store at random while a mount loads, slowly and
// with failures; memories that neither touches are there at any time, and in the end the tree is
// what the log has.
func TestSessionsWhileLoading(t *testing.T) {
	var still []string
	for i := range 12 {
		still = append(still, fmt.Sprintf("/still%02d/file", i), fmt.Sprintf("/m/%02d", i))
	}
	paths := []string{"/a", "/b", "/a/a", "/a/b", "/b/a/a", "/b/a/b", "/c/d/e/f", "/zz", "/zz/y", "/m/x"}
	r := newRig(t, append(still, "/a", "/b")...)
	random := newRandom(t)
	r.log.Each(logfault.AfterPage, func() { time.Sleep(time.Duration(random(2000)) * time.Microsecond) })
	var wg sync.WaitGroup
	r.inBackground((*store).load)
	r.s.patience = time.Second
	r.followBeside()
	wg.Go(func() {
		for range 60 {
			from, to := paths[random(len(paths))], paths[random(len(paths))]
			switch random(5) {
			case 0, 1:
				_, _ = r.other.Write(t.Context(), from, fmt.Append(nil, random(1000)), versionlog.ExpectAny())
			case 2:
				_, _ = r.other.Remove(t.Context(), from, versionlog.ExpectAny())
			case 3:
				_, _ = r.other.RemoveTree(t.Context(), from, nil, nil)
			case 4:
				_, _ = r.other.Rename(t.Context(), from, to, nil)
			}
			if random(8) == 0 {
				r.log.SetDown(!r.log.IsDown())
			}
		}
		r.log.SetDown(false)
	})
	wg.Go(func() {
		for range 60 {
			r.randomRequest(random, paths)
			path := still[random(len(still))]
			if _, status := r.lookup(path); !status.Ok() && status != fuse.EIO {
				t.Errorf("lookup of %s: %v", path, status)
			}
			if names, status := r.names("/m"); status.Ok() && len(names) < 12 || !status.Ok() && status != fuse.EIO {
				t.Errorf("/m holds %q, %v", names, status)
			}
			if _, status := r.lookup("/m/never"); status != fuse.ENOENT && status != fuse.EIO {
				t.Errorf("lookup of a name that never was: %v", status)
			}
		}
	})
	wg.Wait()
	r.settle()
	r.stop()
	r.awaitTasks()
	r.dropEmpty(r.s.tree.Root())
	r.wantAsLog()
}

// randomRequest makes one request that may fail.
func (r *rig) randomRequest(random func(int) int, paths []string) {
	path, to := paths[random(len(paths))], paths[random(len(paths))]
	dir, name := tree.Split(path)
	entry, status := r.lookup(dir)
	toDir, newName := tree.Split(to)
	toEntry, toStatus := r.lookup(toDir)
	if !status.Ok() || !toStatus.Ok() || entry.Mode&syscall.S_IFDIR == 0 && dir != "" || toEntry.Mode&syscall.S_IFDIR == 0 && toDir != "" {
		return
	}
	in := header(entry.NodeId)
	switch random(7) {
	case 0, 1, 2:
		_ = r.trySave(entry.NodeId, path, fmt.Sprint("mine ", random(1000)))
	case 3:
		r.fs.Unlink(nil, &in, name)
	case 4:
		if strings.HasPrefix(to, path+"/") || strings.HasPrefix(path, to+"/") {
			return // the kernel does not let that through
		}
		r.fs.Rename(nil, &fuse.RenameIn{InHeader: in, Newdir: toEntry.NodeId}, name, newName)
	case 5:
		r.fs.Mkdir(nil, &fuse.MkdirIn{InHeader: in, Mode: 0o755}, name, &fuse.EntryOut{})
	case 6:
		r.fs.Rmdir(nil, &in, name)
	}
}

func (r *rig) trySave(dir uint64, path, text string) fuse.Status {
	_, name := tree.Split(path)
	var out fuse.CreateOut
	in := &fuse.CreateIn{InHeader: header(dir), Flags: syscall.O_WRONLY | syscall.O_CREAT | syscall.O_TRUNC, Mode: 0o644}
	if status := r.fs.Create(nil, in, name, &out); !status.Ok() {
		return status
	}
	_, status := r.fs.Write(nil, &fuse.WriteIn{Fh: out.Fh}, []byte(text))
	if status.Ok() {
		status = r.fs.Flush(nil, &fuse.FlushIn{Fh: out.Fh})
	}
	r.fs.Release(nil, &fuse.ReleaseIn{Fh: out.Fh})
	return status
}

// settle waits until everything has loaded and been followed.
func (r *rig) settle() {
	r.Helper()
	tip, err := r.other.Tip(r.Context())
	r.must(err)
	for range 6000 {
		looked := r.looking()
		done := r.s.tree.IsLoadedLocked() && r.s.tree.AppliedLocked() >= tip.Seq
		looked()
		if done {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.Fatal("the mount does not settle")
}

// dropEmpty removes the empty directories, which are this mount's own.
func (r *rig) dropEmpty(dir *tree.Entry) {
	for _, n := range dir.ChildrenLocked() {
		if n.IsDir() {
			r.dropEmpty(n)
			if n.CountLocked() == 0 {
				r.s.tree.DetachLocked(n)
			}
		}
	}
}

// newRandom returns a source of numbers below n that may be shared.
func newRandom(t *testing.T) func(n int) int {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	source := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	return func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return source.IntN(n)
	}
}
