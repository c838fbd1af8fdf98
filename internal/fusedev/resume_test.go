package fusedev

import (
	"log"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// resume serves another toy in the connection of one that has left.
func (m *served) resume(f *toy) *served {
	m.Helper()
	device, err := unix.Dup(m.Device())
	if err != nil {
		m.Fatal(err)
	}
	next := &served{T: m.T, toy: f, dir: m.dir, said: &said{}, over: make(chan struct{})}
	next.Server, err = Resume(f, device, m.Greeting(), &fuse.MountOptions{FsName: "toy", Name: "toy", Logger: log.New(next.said, "", 0), MaxBackground: 64})
	if err != nil {
		m.Fatal(err)
	}
	go func() {
		defer close(next.over)
		next.Serve()
	}()
	m.Cleanup(func() {
		_ = unix.Unmount(m.dir, unix.MNT_DETACH)
		next.wantOver()
		_ = next.Close()
		if text := next.said.String(); text != "" {
			m.Errorf("the server that resumed says %q", text)
		}
	})
	return next
}

// shLater is sh for a script that waits for something; the channel has what it says.
func (m *served) shLater(script string) chan string {
	said := make(chan string, 1)
	go func() { said <- m.sh(script) }()
	return said
}

// TestResume ends a server with requests that it has read and not answered. Another
// one goes on: it answers what is only asked for, and refuses what may be done.
func TestResume(t *testing.T) {
	first := newToy()
	first.leave = make(chan struct{})
	defer close(first.leave)
	m := serve(t, first)
	if err := m.CanResume(); err != nil {
		t.Skip(err)
	}
	if got := m.sh("cat inline"); got != "at once\n" {
		t.Fatalf("got %q", got)
	}
	opened := m.shLater("cat slow")
	m.until("an open waits", func() bool { return m.waiters() == 1 }) // then what it looked up is not locked
	made := m.shLater("mkdir dir 2>&1 || true")
	m.until("two requests wait", func() bool { return m.waiters() == 2 })
	m.Leave()
	second := newToy()
	m.resume(second)
	if got := <-opened; got != "later\n" {
		t.Errorf("an open that was repeated, and what follows: %q", got)
	}
	if got := <-made; !strings.Contains(got, "Input/output error") {
		t.Errorf("a directory that may have been made: %q", got)
	}
	if n := second.count("mkdir"); n != 0 {
		t.Errorf("mkdir was repeated %d times", n)
	}
	if got := m.sh("cat inline; mkdir new 2>&1 || true"); !strings.HasPrefix(got, "at once\n") || second.count("mkdir") != 1 {
		t.Errorf("what comes later: %q", got)
	}
}

// TestBeforeAnswers holds that there is a call before each answer, which is over when
// the answer comes.
func TestBeforeAnswers(t *testing.T) {
	var calls atomic.Int64
	m := serve(t, newToy(), func(s *Server) { s.BeforeAnswers(func() { calls.Add(1) }) })
	last := int64(0)
	for _, script := range []string{"cat inline", "cat slow", "printf new > slow", "ls missing || true"} {
		m.sh(script + " 2>&1")
		if now := calls.Load(); now <= last {
			t.Errorf("%s: no call", script)
		} else {
			last = now
		}
	}
}

// TestDoubtful holds which requests are refused when the kernel repeats them, and
// that cut ones do no harm.
func TestDoubtful(t *testing.T) {
	m := serve(t, newToy())
	for op := range uint32(60) {
		for length := 40; length < 80; length++ {
			b := newBuffers()
			*b.header() = fuse.InHeader{Length: uint32(length), Opcode: op, Unique: resent | 12345, NodeId: 77}
			_, changes := changesNames[op]
			if m.doubtful(b, length) != changes {
				t.Errorf("request %d repeated: refused %v", op, !changes)
			}
			b.header().Unique = 12345
			if m.doubtful(b, length) {
				t.Errorf("request %d, which is new, is refused", op)
			}
		}
	}
}

// TestGreetingIsChecked resumes with what cannot be a greeting.
func TestGreetingIsChecked(t *testing.T) {
	if _, err := Resume(newToy(), -1, []byte("short"), &fuse.MountOptions{}); err == nil {
		t.Error("resumed")
	}
}
