package fusefs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// lossyLog commits, and loses the reply as often as it is told to. It insists
// that a key is called fresh the first time, and not again.
type lossyLog struct {
	versionlog.Log
	lose int
	keys sync.Map // that were proposed
}

func (l *lossyLog) Commit(ctx context.Context, storeID string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	if _, again := l.keys.LoadOrStore(p.Key, true); again == p.Fresh {
		return nil, fmt.Errorf("%w: key %s is called fresh: %v", versionlog.ErrInvalid, p.Key, p.Fresh)
	}
	c, err := l.Log.Commit(ctx, storeID, p)
	if err == nil && l.lose > 0 {
		l.lose--
		return nil, errors.New("the reply is lost")
	}
	return c, err
}

// unmounted is a file system whose handlers the test calls, as the kernel would.
type unmounted struct {
	*testing.T
	fs  *fileSystem
	s   *store
	ms  *memory.Store
	log *lossyLog
}

func newUnmounted(t *testing.T) *unmounted {
	ctx := context.Background()
	blobs, log := memcas.New(), &lossyLog{Log: memlog.New(nil)}
	lib := memory.NewLibrary(log, func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(ctx, "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	ms, err := lib.Open(ctx, info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorSession, ID: "s"}, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	fs := newFileSystem(ctx, []*memory.Store{ms}, Options{Logger: slog.New(slog.DiscardHandler), Session: "s"})
	return &unmounted{T: t, fs: fs, s: fs.stores[0], ms: ms, log: log}
}

// create makes a file in the store's root and returns its handle.
func (u *unmounted) create(name string, flags uint32) uint64 {
	u.Helper()
	in := &fuse.CreateIn{Flags: flags | syscall.O_CREAT, Mode: 0o644}
	in.NodeId = u.s.root.id
	var out fuse.CreateOut
	if status := u.fs.Create(nil, in, name, &out); !status.Ok() {
		u.Fatal(status)
	}
	return out.Fh
}

func (u *unmounted) write(fh uint64, flags uint32, at int, text string) {
	u.Helper()
	if _, status := u.fs.Write(nil, &fuse.WriteIn{Fh: fh, Flags: flags, Offset: uint64(at)}, []byte(text)); !status.Ok() {
		u.Fatal(status)
	}
}

func (u *unmounted) fsync(fh uint64, want fuse.Status) {
	u.Helper()
	if status := u.fs.Fsync(nil, &fuse.FsyncIn{Fh: fh}); status != want {
		u.Fatalf("fsync: %v, want %v", status, want)
	}
}

// follow lets the file system meet what is in the log.
func (u *unmounted) follow() {
	u.Helper()
	for c, err := range u.ms.Commits(u.fs.ctx, u.s.applied) {
		if err != nil {
			u.Fatal(err)
		}
		u.s.meet(u.fs.ctx, c)
	}
}

// check compares the content of a file and the number of its versions.
func (u *unmounted) check(path, want string, versions int) {
	u.Helper()
	_, data, err := u.ms.Read(u.fs.ctx, path)
	if err != nil || string(data) != want {
		u.Errorf("%s holds %q, %v; want %q", path, data, err, want)
	}
	n := 0
	for _, err := range u.ms.History(u.fs.ctx, path) {
		if n++; err != nil {
			u.Fatal(err)
		}
	}
	if n != versions {
		u.Errorf("%s has %d versions, want %d", path, n, versions)
	}
}

// TestLostReplies has the log commit what was written and lose the reply: tried
// again, it is there once, and it is no conflict.
func TestLostReplies(t *testing.T) {
	for name, flags := range map[string]uint32{"append": syscall.O_WRONLY | syscall.O_APPEND, "overwrite": syscall.O_WRONLY} {
		for _, met := range []string{"", " met by the follower"} {
			t.Run(name+met, func(t *testing.T) {
				u := newUnmounted(t)
				met := func() {
					if met != "" {
						u.follow()
					}
				}
				fh := u.create("f", flags)
				u.write(fh, flags, 0, "one\n")
				u.log.lose = 1
				u.fsync(fh, fuse.EIO)
				met()
				u.fsync(fh, fuse.OK)
				u.check("/f", "one\n", 1)

				u.write(fh, flags, 4, "one\n")
				u.log.lose = 2
				u.fsync(fh, fuse.EIO)
				u.write(fh, flags, 8, "two\n") // before it is known what became of the first
				met()
				u.fsync(fh, fuse.EIO)
				u.fsync(fh, fuse.OK)
				u.check("/f", "one\none\ntwo\n", 3)
				u.follow()
				u.fsync(fh, fuse.OK)
				u.check("/f", "one\none\ntwo\n", 3)
				if len(u.s.unsure) > 0 {
					t.Errorf("still unsure of %d commits", len(u.s.unsure))
				}
			})
		}
	}
}

// TestLostReplyOfAppendThatLost appends, loses a reply, and another session
// appends the very same before it is tried again.
func TestLostReplyOfAppendThatLost(t *testing.T) {
	const flags = syscall.O_WRONLY | syscall.O_APPEND
	u := newUnmounted(t)
	fh := u.create("f", flags)
	u.write(fh, flags, 0, "x\n")
	u.log.lose = 1
	u.fsync(fh, fuse.EIO)
	if _, err := u.ms.Write(u.fs.ctx, "/f", []byte("x\nx\n"), versionlog.ExpectAny()); err != nil {
		t.Fatal(err)
	}
	u.fsync(fh, fuse.OK)
	u.check("/f", "x\nx\n", 2)
	u.write(fh, flags, 2, "x\n")
	u.fsync(fh, fuse.OK)
	u.check("/f", "x\nx\nx\n", 3)
}
