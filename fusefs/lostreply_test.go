package fusefs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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

// save makes a file, writes it and closes it, as a program does.
func (u *unmounted) save(name, text string) {
	u.Helper()
	fh := u.create(name, syscall.O_WRONLY)
	u.write(fh, 0, 0, text)
	if status := u.fs.Flush(nil, &fuse.FlushIn{Fh: fh}); !status.Ok() {
		u.Fatalf("save of %s: %v", name, status)
	}
	u.fs.Release(nil, &fuse.ReleaseIn{Fh: fh})
}

// rename gives a file in the store's root another name there.
func (u *unmounted) rename(from, to string) fuse.Status {
	root := u.s.root.id
	return u.fs.Rename(nil, &fuse.RenameIn{InHeader: header(root), Newdir: root}, from, to)
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

// TestUnsureIsBounded fails to commit many files, which are closed and gone.
func TestUnsureIsBounded(t *testing.T) {
	u := newUnmounted(t)
	u.fs.notify.Close()
	u.log.Log = fullLog{u.log.Log}
	for i := range 100 {
		fh := u.create(fmt.Sprint("f", i), syscall.O_WRONLY)
		u.write(fh, 0, 0, "text")
		if status := u.fs.Flush(nil, &fuse.FlushIn{Fh: fh}); status != fuse.EIO {
			t.Fatal(status)
		}
		u.fs.Release(nil, &fuse.ReleaseIn{Fh: fh})
	}
	if n := len(u.s.unsure); n > 64 {
		t.Errorf("%d drafts are kept with their bytes, of files that are closed and gone", n)
	}
}

// TestLostReplyOfRename loses the reply of a rename over a file, and renames again.
func TestLostReplyOfRename(t *testing.T) {
	u := newUnmounted(t)
	u.fs.notify.Close()
	u.save("f", "one")
	u.follow()
	u.save("f.tmp", "two")
	u.log.lose = 1
	if status := u.rename("f.tmp", "f"); status != fuse.EIO {
		t.Fatal(status)
	}
	u.follow()
	if status := u.rename("f.tmp", "f"); !status.Ok() {
		t.Errorf("trying again: %v", status)
	}
}

// TestLostReplyIsTheSessions loses the reply of a commit of names, which the mount then
// meets: it is the session's own, which knows what came of it.
func TestLostReplyIsTheSessions(t *testing.T) {
	u := newUnmounted(t)
	u.fs.notify.Close()
	root := header(u.s.root.id)
	lost := func(status fuse.Status) {
		t.Helper()
		if status != fuse.EIO {
			t.Fatalf("%v, want EIO", status)
		}
		u.follow()
	}
	u.save("f", "one")
	u.save("g", "other")
	u.follow()

	u.save("f.tmp", "two")
	u.log.lose = 1
	lost(u.rename("f.tmp", "f"))
	u.save("f.tmp", "three")
	if status := u.rename("f.tmp", "f"); !status.Ok() {
		t.Errorf("saving over what the session has saved: %v", status)
	}
	u.check("/f", "three", 3)

	theirs := func(path string) {
		t.Helper()
		if _, err := u.ms.Write(u.fs.ctx, path, []byte("theirs"), versionlog.ExpectAbsent()); err != nil {
			t.Fatal(err)
		}
		u.follow()
	}
	theirs("/n") // which the session does not read
	for freed, free := range map[string]func() fuse.Status{
		"g": func() fuse.Status { return u.rename("g", "h") },
		"n": func() fuse.Status { return u.fs.Unlink(nil, &root, "n") },
	} {
		u.log.lose = 1
		lost(free())
		theirs("/" + freed)
		in := &fuse.OpenIn{InHeader: header(u.s.find("/" + freed).id), Flags: syscall.O_WRONLY | syscall.O_TRUNC}
		if status := u.fs.Open(nil, in, &fuse.OpenOut{}); status != fuse.Status(DefaultConflictErrno) {
			t.Errorf("overwriting /%s, which is gone as far as the session knows: %v, want a conflict", freed, status)
		}
	}
	if len(u.s.owed) > 0 {
		t.Errorf("still unsure of %d commits", len(u.s.owed))
	}
}

// TestOwedIsBounded loses the replies of many renames that are not in the log.
func TestOwedIsBounded(t *testing.T) {
	u := newUnmounted(t)
	u.fs.notify.Close()
	fh := u.create("f", syscall.O_WRONLY)
	u.write(fh, 0, 0, "text")
	u.fsync(fh, fuse.OK)
	u.follow()
	u.log.Log = fullLog{u.log.Log}
	for range 100 {
		if status := u.rename("f", "g"); status != fuse.EIO {
			t.Fatal(status)
		}
	}
	if n := len(u.s.owed); n > 64 {
		t.Errorf("%d commits are remembered that may be in the log", n)
	}
}

// TestDraftIsSettledOnce loses the reply of an append, and syncs again: meanwhile the
// follower meets the commit, and another session appends.
func TestDraftIsSettledOnce(t *testing.T) {
	const flags = syscall.O_WRONLY | syscall.O_APPEND
	u := newUnmounted(t)
	u.fs.notify.Close()
	fh := u.create("f", flags)
	u.write(fh, flags, 0, "one\n")
	u.log.lose = 1
	u.fsync(fh, fuse.EIO)
	u.write(fh, flags, 4, "two\n")
	// The second fsync takes the draft of the first, and waits its turn; meanwhile
	// the follower meets the commit, and another session appends.
	u.s.turn = turn{path: "/f", at: time.Now().Add(time.Second), took: 200 * time.Millisecond}
	done := make(chan fuse.Status)
	go func() { done <- u.fs.Fsync(nil, &fuse.FsyncIn{Fh: fh}) }()
	time.Sleep(30 * time.Millisecond)
	u.follow()
	_, data, err := u.ms.Read(u.fs.ctx, "/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.ms.Write(u.fs.ctx, "/f", append(data, "theirs\n"...), versionlog.ExpectAny()); err != nil {
		t.Fatal(err)
	}
	if status := <-done; !status.Ok() {
		t.Fatal(status)
	}
	if _, data, err = u.ms.Read(u.fs.ctx, "/f"); string(data) != "one\ntheirs\ntwo\n" && string(data) != "one\ntwo\ntheirs\n" {
		t.Errorf("/f holds %q, %v", data, err)
	}
}

// TestDraftIsSettledOnceByTwo loses the reply of an append, appends more and syncs again,
// while the follower meets the commit, and another session appends, too: each of the two
// may be the first to know.
func TestDraftIsSettledOnceByTwo(t *testing.T) {
	const flags = syscall.O_WRONLY | syscall.O_APPEND
	u := newUnmounted(t)
	u.fs.notify.Close()
	fh := u.create("f", flags)
	var want []string
	for i := range 2000 {
		one, two := fmt.Sprintln("one", i), fmt.Sprintln("two", i)
		u.write(fh, flags, 0, one)
		u.log.lose = 1
		u.fsync(fh, fuse.EIO)
		u.write(fh, flags, 0, two)
		want = append(want, one, two)
		done := make(chan bool)
		go func() {
			defer close(done)
			for began, delay := time.Now(), rand.N(20*time.Microsecond); time.Since(began) < delay; {
			}
			u.follow()
			head, data, err := u.ms.Read(u.fs.ctx, "/f")
			if err != nil {
				t.Error(err)
			}
			_, _ = u.ms.Write(u.fs.ctx, "/f", append(data, "theirs\n"...), versionlog.ExpectVersion(head.ID))
		}()
		u.fsync(fh, fuse.OK)
		<-done
		u.follow()
	}
	_, data, err := u.ms.Read(u.fs.ctx, "/f")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range want {
		if n := strings.Count(string(data), line); n != 1 {
			t.Errorf("%q is there %d times", line, n)
		}
	}
}

// TestDraftDoesNotComeBack loses the reply of a new file's commit, and syncs again:
// meanwhile another session removes the file.
func TestDraftDoesNotComeBack(t *testing.T) {
	const flags = syscall.O_WRONLY | syscall.O_APPEND
	u := newUnmounted(t)
	u.fs.notify.Close()
	if err := u.s.walk(u.fs.ctx); err != nil {
		t.Fatal(err)
	}
	fh := u.create("f", flags)
	u.write(fh, flags, 0, "one\n")
	u.log.lose = 1
	u.fsync(fh, fuse.EIO)
	u.s.turn = turn{path: "/f", at: time.Now().Add(time.Second), took: 200 * time.Millisecond}
	done := make(chan fuse.Status)
	go func() { done <- u.fs.Fsync(nil, &fuse.FsyncIn{Fh: fh}) }()
	time.Sleep(30 * time.Millisecond)
	if _, err := u.ms.Remove(u.fs.ctx, "/f", versionlog.ExpectAny()); err != nil {
		t.Fatal(err)
	}
	u.follow()
	<-done
	u.follow()
	if u.s.find("/f") != nil {
		t.Errorf("/f is in the tree, and not in the log")
	}
}

// TestLostReplyThenRename loses the reply of a commit, renames the file, and writes on.
func TestLostReplyThenRename(t *testing.T) {
	u := newUnmounted(t)
	u.fs.notify.Close()
	fh := u.create("f", syscall.O_WRONLY)
	u.write(fh, 0, 0, "one")
	u.fsync(fh, fuse.OK)
	u.follow()
	u.write(fh, 0, 0, "two")
	u.log.lose = 1
	u.fsync(fh, fuse.EIO)
	if status := u.rename("f", "g"); !status.Ok() {
		t.Fatal(status)
	}
	u.follow()
	u.fsync(fh, fuse.OK)
	if _, status := u.fs.Write(nil, &fuse.WriteIn{Fh: fh}, []byte("three")); !status.Ok() {
		t.Errorf("the session is in conflict with itself: write: %v", status)
	}
	u.fsync(fh, fuse.OK)
	u.check("/g", "three", 4)
}

// fullLog has no space left.
type fullLog struct{ versionlog.Log }

func (fullLog) Commit(context.Context, string, *versionlog.Proposal) (*versionlog.Commit, error) {
	return nil, errors.New("no space left on device")
}
