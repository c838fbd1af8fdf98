package crash

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mneme/tests/harness"
)

// TestStoppedDaemon stops the daemon of one of three sessions under load, and
// lets it go on: the others work on meanwhile, what was under way in its own
// mount ends well, and everything acknowledged is there, once and whole.
func TestStoppedDaemon(t *testing.T) {
	t.Parallel()
	harness.EachDaemon(t, stoppedDaemon)
}

func stoppedDaemon(t *testing.T) {
	e := harness.NewEnv(t)
	s := &stopped{env: e, end: make(chan struct{})}
	for i := range 3 {
		m := e.Mount(t, "notes")
		s.mounts = append(s.mounts, m)
		s.sessions = append(s.sessions, &stoppedSession{name: fmt.Sprint("s", i), agent: m.Agent(t)})
	}
	var work sync.WaitGroup
	for _, session := range s.sessions {
		work.Go(func() { session.write(t, s.end) })
	}
	// A process that is stopped in the middle of a commit holds the embedded log, and others
	// wait; that is tried again.
	worked := false
	for try := 0; try < 20 && !worked && !t.Failed(); try++ {
		worked = s.stop(t)
	}
	s.others(t, 5, harness.ScriptPatience) // and it goes on
	close(s.end)
	work.Wait()
	if !worked {
		t.Fatal("the others never worked on")
	}
	s.check(t)
}

// stopped is a store with sessions at work.
type stopped struct {
	env      *harness.Env
	mounts   []*harness.Mount
	sessions []*stoppedSession
	end      chan struct{} // closed when the load is to end
}

// stoppedSession writes a file of its own and appends to one of all.
type stoppedSession struct {
	name  string
	agent *harness.Agent
	calls []harness.Call // that it made
	acked map[int]bool
	count atomic.Int64 // of those acknowledged
	busy  atomic.Bool  // a call is under way
}

func (s *stoppedSession) write(t *testing.T, end chan struct{}) {
	s.acked = map[int]bool{}
	for i := 0; ; i++ {
		select {
		case <-end:
			return
		default:
		}
		text := fmt.Sprintf("%s call %d\n", s.name, i)
		c := harness.Call{Op: "append", Path: "all", Text: text}
		if i%3 > 0 {
			c = harness.Call{Op: []string{"put", "replace"}[i%2], Path: s.name, Text: strings.Repeat(text, 300)}
		}
		s.calls = append(s.calls, c)
		s.busy.Store(true)
		r := s.agent.DoWithin(t, c, stopLength+harness.ScriptPatience)
		s.busy.Store(false)
		switch {
		case r.OK():
			s.acked[i] = true
			s.count.Add(1)
		case harness.Torture() && r.Errno == syscall.EIO: // another process held the log for too long
		default:
			t.Errorf("%s: %v: %v", s.name, c, r.Errno)
			return
		}
	}
}

// stopLength is how long a daemon is stopped in the long form.
const stopLength = 30 * time.Second

// stop stops the first daemon and reports whether the others worked meanwhile.
func (s *stopped) stop(t *testing.T) bool {
	t.Helper()
	m := s.mounts[0]
	s.others(t, 1, harness.ScriptPatience)
	if err := syscall.Kill(m.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(m.PID, syscall.SIGCONT) }()
	// A thread that tells the kernel of a name waits in it (D) for a call that
	// changes the same directory, and so for the daemon.
	harness.AwaitUntil(t, "the daemon is stopped", func() bool { return len(threads(m, "TD")) == len(threads(m, "")) })
	began, patience := time.Now(), harness.SlownessOf(t)*2*time.Second
	worked := s.others(t, 5, patience)
	if harness.Torture() {
		time.Sleep(stopLength - time.Since(began))
	}
	if worked && !s.sessions[0].busy.Load() {
		t.Error("nothing was under way in the stopped mount")
	}
	return worked
}

// others waits until each of the other sessions has n more calls acknowledged.
func (s *stopped) others(t *testing.T, n int64, patience time.Duration) bool {
	t.Helper()
	want := map[*stoppedSession]int64{}
	for _, session := range s.sessions[1:] {
		want[session] = session.count.Load() + n
	}
	for deadline := time.Now().Add(patience); len(want) > 0; time.Sleep(time.Millisecond) {
		for session, count := range want {
			if session.count.Load() >= count {
				delete(want, session)
			}
		}
		if time.Now().After(deadline) || t.Failed() {
			return false
		}
	}
	return true
}

// check looks for every call in the store.
func (s *stopped) check(t *testing.T) {
	t.Helper()
	e := s.env
	e.Settled(t, "notes", s.mounts...)
	lines := map[string]int{}
	for line := range strings.Lines(e.Must(t, "cat", "notes:/all")) {
		lines[line]++
	}
	for _, session := range s.sessions {
		versions := e.Versions(t, "notes:/"+session.name)
		next, acked := 0, 0
		for i, c := range session.calls {
			there := false
			if c.Op == "append" {
				there = lines[c.Text] == 1
				delete(lines, c.Text)
			} else if next < len(versions) && versions[next].SHA256 == harness.SumOf(c.Text) {
				there = true
				next++
			}
			if session.acked[i] {
				acked++
			}
			if session.acked[i] && !there {
				t.Errorf("%s: %v, call %d, was acknowledged and is not there", session.name, c, i)
			}
		}
		if next < len(versions) {
			t.Errorf("%s: version %v is nobody's", session.name, versions[next])
		}
		t.Logf("%s: %d calls, %d acknowledged", session.name, len(session.calls), acked)
	}
	if len(lines) > 0 {
		t.Errorf("nobody's lines, or twice: %v", slices.Sorted(maps.Keys(lines)))
	}
}
