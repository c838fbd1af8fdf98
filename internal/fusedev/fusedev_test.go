package fusedev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"mneme/internal/testing/skip"
)

const patient = 30 * time.Second // for operations of milliseconds

// served is a mounted toy.
type served struct {
	*testing.T
	*toy
	*Server
	dir  string
	said *said // by the server
	over chan struct{}
}

// said is what was logged.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *said) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Reset()
}

func serve(t *testing.T, f *toy, prepare ...func(*Server)) *served {
	t.Helper()
	if os.Geteuid() != 0 {
		skip.Because(t, "mounting in tests takes root")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		skip.Because(t, "there is no /dev/fuse")
	}
	m := &served{T: t, toy: f, dir: t.TempDir(), said: &said{}, over: make(chan struct{})}
	server, err := Mount(f, m.dir, nil, &fuse.MountOptions{FsName: "toy", Name: "toy", Logger: log.New(m.said, "", 0), MaxBackground: 64})
	if err != nil {
		t.Fatal(err)
	}
	m.Server = server
	for _, p := range prepare {
		p(server)
	}
	go func() {
		defer close(m.over)
		server.Serve()
	}()
	t.Cleanup(func() {
		_ = unix.Unmount(m.dir, unix.MNT_DETACH) // unless the test has
		m.wantOver()
		_ = m.Close() // unless the test has
		if text := m.said.String(); text != "" {
			t.Errorf("the server says %q", text)
		}
	})
	return m
}

// wantOver waits until Serve has returned.
func (m *served) wantOver() {
	m.Helper()
	select {
	case <-m.over:
	case <-time.After(patient):
		m.Fatal("Serve goes on after the file system was unmounted")
	}
}

// sh runs a script in the mount, in another process, and returns what it prints.
// Its own process goes there: while Go starts a process it waits for it to change its
// directory, and can serve no request.
func (m *served) sh(script string) string {
	m.Helper()
	ctx, stop := context.WithTimeout(m.Context(), patient)
	defer stop()
	cmd := exec.CommandContext(ctx, "sh", "-euc", `cd "$0"; `+script, m.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.Errorf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// until waits for something that happens in milliseconds.
func (m *served) until(what string, is func() bool) {
	m.Helper()
	for deadline := time.Now().Add(patient); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			m.Fatalf("not within %v: %s", patient, what)
		}
	}
}

func (m *served) waiters() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting
}

// A request that can be answered at once is answered inline; another one is passed on.
func TestInlineFirst(t *testing.T) {
	m := serve(t, newToy())
	if got := m.sh("ls; cat inline; printf new > inline; cat inline"); got != "inline\nslow\nat once\nnew" {
		t.Errorf("got %q", got)
	}
	m.until("every handle is released", func() bool { return m.count("inline release") == 3 })
	for kind, want := range map[string]bool{
		"lookup": false, "open": false, "write": false, "release": false, "inline open": true, "inline write": true, "inline opendir": true, "read": true,
	} {
		if n := m.count(kind); n > 0 != want {
			t.Errorf("of the inline file, %d %s", n, kind)
		}
	}
	if got := m.sh("cat slow; printf more > slow; cat slow"); got != "later\nmore" {
		t.Errorf("got %q", got)
	}
	m.until("every handle is released", func() bool { return m.count("release") == 3 })
	for _, kind := range []string{"open", "write", "release"} {
		if n := m.count(kind); n == 0 {
			t.Errorf("of the slow file, no %s", kind)
		}
	}
}

// A file that is made at once is the one that was asked for.
func TestInlineCreate(t *testing.T) {
	m := serve(t, newToy())
	m.sh("umask 027; printf 1 > new; printf 2 > slow-new")
	m.mu.Lock()
	defer m.mu.Unlock()
	if want := []string{"new 100640", "slow-new 100640"}; !slices.Equal(m.made, want) {
		t.Errorf("made %q, want %q", m.made, want)
	}
	if m.calls["inline create"] != 2 || m.calls["create"] != 1 {
		t.Errorf("%v, want 2 inline creates and 1 create", m.calls)
	}
}

// Waiting requests do not delay others, however many they are, and however soon requests
// follow on each other.
func TestWaitingHindersNobody(t *testing.T) {
	f := newToy()
	f.leave = make(chan struct{})
	m := serve(t, f)
	const many = 20
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			if got := m.sh("cat slow"); got != "later\n" {
				t.Errorf("got %q", got)
			}
		})
		m.until("it waits", func() bool { return m.waiters() == i+1 })
		if got, want := m.sh("cat $(yes inline | head -n 200) | uniq -c"), "    200 at once\n"; got != want {
			t.Errorf("got %q beside those who wait, want %q", got, want)
		}
	}
	close(f.leave)
	all.Wait()
}

// An unmount that comes as a request is being taken is no error of the server, which
// says so of others.
func TestUnmountedAsARequestIsTaken(t *testing.T) {
	for err, want := range map[error]string{syscall.ENODEV: "", syscall.ECONNABORTED: "", syscall.EIO: "read from the FUSE device: input/output error\n"} {
		said := &said{}
		s := &Server{log: log.New(said, "", 0), stop: -1, gone: make(chan struct{})}
		if s.end(err); said.String() != want {
			t.Errorf("of %v the server says %q, want %q", err, said.String(), want)
		}
	}
}

// Many who wait a little, side by side with many who do not.
func TestSideBySide(t *testing.T) {
	m := serve(t, newToy())
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if got, want := m.sh("cat $(yes slow inline | head -n 300) | sort | uniq -c"), "    300 at once\n    300 later\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	all.Wait()
	m.until("one reader is left", func() bool { return m.readers.Load() == 1 })
}

// A program that is killed while it waits ends with the answer that it waited
// for; Linux takes no request back that is being answered. Other programs are not delayed.
func TestKilledWhileWaiting(t *testing.T) {
	f := newToy()
	f.leave = make(chan struct{})
	m := serve(t, f)
	cmd := exec.Command("cat", filepath.Join(m.dir, "slow"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.until("it waits", func() bool { return m.waiters() == 1 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := m.sh("cat inline"); got != "at once\n" {
		t.Errorf("got %q", got)
	}
	close(f.leave)
	_ = cmd.Wait()
	m.until("nobody waits", func() bool { return m.waiters() == 0 })
	if got := m.sh("cat slow"); got != "later\n" {
		t.Errorf("got %q", got)
	}
}

// Revoke refuses everything at once, also waiting requests, except writes back from a
// mapping; Stop refuses those, too. Serve returns when the file system has finished its
// requests.
func TestRevoke(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		skip.Because(t, "python3 is not installed")
	}
	f := newToy()
	f.leave = make(chan struct{})
	m := serve(t, f)
	mapping := exec.Command("python3", "-c", `
import mmap, os, sys
os.chdir(sys.argv[1])
f = os.open("inline", os.O_RDWR)
m = mmap.mmap(f, 0)
m[0:2] = b"AT"
print("mapped", flush=True)
os.read(0, 1)`, m.dir)
	in, err := mapping.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := mapping.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := mapping.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan string)
	go func() {
		text, _ := exec.Command("cat", filepath.Join(m.dir, "slow")).CombinedOutput()
		waiting <- string(text)
	}()
	m.until("it waits", func() bool { return m.waiters() == 1 })

	m.Revoke()
	const gone = "Transport endpoint is not connected"
	if got := <-waiting; !strings.Contains(got, gone) {
		t.Errorf("whoever waits gets %q", got)
	}
	if status := m.InodeNotifyStoreCache(inlineID, 0, []byte("pushed!\n")); status != fuse.Status(syscall.ENODEV) {
		t.Errorf("pages are given to the kernel: %v", status)
	}
	if status := m.notify(InodeNotice(inlineID, 0, 0)); !status.Ok() {
		t.Errorf("dropping pages: %v", status)
	}
	m.mu.Lock()
	if got := string(m.data[inlineID]); got != "AT once\n" {
		t.Errorf("written back: %q", got)
	}
	m.mu.Unlock()
	text, _ := exec.Command("cat", filepath.Join(m.dir, "inline")).CombinedOutput()
	if !strings.Contains(string(text), gone) {
		t.Errorf("whoever opens a file after that gets %q", text)
	}

	m.Stop()
	select {
	case <-m.over:
		t.Error("Serve has returned before the file system was done")
	case <-time.After(10 * time.Millisecond):
	}
	close(f.leave)
	m.wantOver()
	if n := m.resting.Load(); n != 0 {
		t.Errorf("%d goroutines are left", n)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	_ = in.Close()
	_ = mapping.Wait()
}

func TestMountFails(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Because(t, "mounting in tests takes root")
	}
	_, err := Mount(newToy(), filepath.Join(t.TempDir(), "missing"), nil, &fuse.MountOptions{FsName: "toy", Name: "toy"})
	if !errors.Is(err, syscall.ENOENT) {
		t.Errorf("mounting at a missing directory: %v", err)
	}
	_, err = Mount(newToy(), t.TempDir(), nil, &fuse.MountOptions{FsName: "toy", Name: "toy", Options: []string{"nonsense"}})
	if !errors.Is(err, syscall.EINVAL) {
		t.Errorf("mounting with a wrong option: %v", err)
	}
}

func TestNotices(t *testing.T) {
	m := serve(t, newToy())
	m.sh("stat inline")
	if status := m.InodeNotifyStoreCache(inlineID, 0, []byte("pushed!\n")); !status.Ok() {
		t.Errorf("pushing pages: %v", status)
	}
	if got := m.sh("cat inline"); got != "pushed!\n" || m.count("read") > 0 {
		t.Errorf("got %q with %d reads after pages were pushed", got, m.count("read"))
	}
	if status := m.notify(InodeNotice(inlineID, 0, 0)); !status.Ok() {
		t.Errorf("dropping pages: %v", status)
	}
	if got := m.sh("cat inline"); got != "at once\n" || m.count("read") == 0 {
		t.Errorf("got %q with %d reads after pages were dropped", got, m.count("read"))
	}
	lookups := m.count("inline lookup")
	if status := m.notify(EntryNotice(fuse.FUSE_ROOT_ID, "inline")); !status.Ok() {
		t.Errorf("dropping a name: %v", status)
	}
	m.sh("cat inline")
	if m.count("inline lookup") == lookups {
		t.Error("a name that was dropped is not looked up")
	}
	if status := m.notify(InodeNotice(77, 0, 0)); status != fuse.ENOENT {
		t.Errorf("a notice about an unknown inode: %v", status)
	}
	if err := unix.Unmount(m.dir, 0); err != nil {
		t.Error(err)
	}
	m.wantOver()
	if status := m.notify(InodeNotice(inlineID, 0, 0)); status != fuse.ENOENT {
		t.Errorf("a notice after the file system was unmounted: %v", status)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if status := m.notify(InodeNotice(inlineID, 0, 0)); status != fuse.Status(syscall.ENODEV) {
		t.Errorf("a notice after the device was closed: %v", status)
	}
}

// unmounted is a server whose device is one end of a pipe.
func unmounted(end *os.File) *Server {
	quiet := log.New(&said{}, "", 0)
	return &Server{fd: int(end.Fd()), stop: -1, log: quiet, protocol: fuse.NewProtocolServer(newToy(), &fuse.MountOptions{Logger: quiet})}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Close()
		_ = w.Close()
	})
	return r, w
}

// A request that is answered with more than there is room for is refused; the
// program is not left to wait.
func TestRefused(t *testing.T) {
	r, w := pipe(t)
	s := unmounted(w)
	b := newBuffers()
	in := request[fuse.ReadIn](b, 0)
	in.Opcode, in.Unique, in.Size = 15, 7, 1<<20
	s.answer(b, int(sizeOf(in)))
	out := make([]byte, 100)
	n, err := r.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	want := newBuffers()
	want.header().Unique = 7
	if n != want.head(fuse.EIO, 0) || !bytes.Equal(out[:n], want.out[:n]) {
		t.Errorf("the answer is % x", out[:n])
	}
}

// A kernel that speaks another protocol is an error of Mount's.
func TestOtherProtocol(t *testing.T) {
	r, w := pipe(t)
	s := unmounted(r)
	b := newBuffers()
	in := request[fuse.InitIn](b, 0)
	in.Opcode, in.Unique, in.Major = 26, 1, 8
	if _, err := w.Write(b.in[:sizeOf(in)]); err != nil {
		t.Fatal(err)
	}
	if err := s.greet(); !errors.Is(err, syscall.EIO) {
		t.Errorf("agreed on protocol 8: %v", err)
	}
}

// Fields that an older kernel does not send are zero, whatever was in the buffer.
func TestShortRequest(t *testing.T) {
	b := newBuffers()
	for i := range b.in {
		b.in[i] = 0xff
	}
	in := request[fuse.OpenIn](b, int(sizeOf(&fuse.OpenIn{}))-4)
	if in.Flags != 0xffffffff || in.Mode != 0 {
		t.Errorf("flags %#x, mode %#x", in.Flags, in.Mode)
	}
}

func sizeOf[T any](v *T) int { return len(bytesOf(v)) }

func TestRetire(t *testing.T) {
	s := &Server{}
	for range 8 {
		s.readers.Add(1)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	stay := 0
	for range 8 {
		all.Go(func() {
			if !s.retire() {
				mu.Lock()
				defer mu.Unlock()
				stay++
			}
		})
	}
	all.Wait()
	if stay != 1 || s.readers.Load() != 1 {
		t.Errorf("of 8 readers %d stay, %d are counted", stay, s.readers.Load())
	}
}

func TestCrowd(t *testing.T) {
	const ms = time.Millisecond
	var c crowd
	var got strings.Builder
	for _, at := range []time.Duration{0, 100, 111, 132, 200, 5000, 5011, 5040, 5090, 5180, 5400, 5800, 6500, 7600} {
		if c.avoided(at * ms) {
			fmt.Fprint(&got, "- ")
			continue
		}
		c.met(at * ms)
		fmt.Fprint(&got, c.pause.Milliseconds(), " ")
	}
	// The longer the sooner it happens again, up to a second.
	if want := "10 10 20 40 80 10 20 40 80 160 320 640 1000 1000 "; got.String() != want {
		t.Errorf("nobody looks for so many ms: %s, want %s", got.String(), want)
	}
}
