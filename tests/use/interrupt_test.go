package use

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/fusefs"
	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/tests/harness"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// heldMount is a mount in this process of a store whose log makes it wait.
type heldMount struct {
	testing.TB
	log   *logfault.Log
	other *memory.Store
	blobs *slowBlob
	at    string // the store
	env   *harness.Env
}

func newHeldMount(t *testing.T, files ...string) *heldMount {
	t.Helper()
	m := &heldMount{TB: t, log: logfault.New(memlog.New(nil), &logfault.Options{Session: "mine"}), env: harness.NewEnv(t)}
	m.blobs = &slowBlob{Store: memcas.New(), slow: cas.Sum([]byte("slow")), asked: make(chan struct{}), gate: make(chan struct{})}
	lib := memory.NewLibrary(m.log, func(string) (cas.Store, error) { return m.blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	m.must(err)
	m.other, err = lib.Open(t.Context(), info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "other"}})
	m.must(err)
	for _, path := range files {
		_, err := m.other.Write(t.Context(), path, []byte(filepath.Base(path)), versionlog.ExpectAny())
		m.must(err)
	}
	mine, err := lib.Open(t.Context(), info.ID, memory.SessionAuthor("mine"))
	m.must(err)
	at := filepath.Join(m.env.Dir, "mnt")
	m.must(os.Mkdir(at, 0o755))
	server, err := fusefs.Mount(t.Context(), at, []*memory.Store{mine}, &fusefs.Options{Session: "mine"})
	m.must(err)
	m.at = filepath.Join(at, "notes")
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *heldMount) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// start runs a program in the store's directory.
func (m *heldMount) start(name string, args ...string) (program *exec.Cmd, output *bytes.Buffer) {
	m.Helper()
	cd := append([]string{"-c", `cd "$0" && exec "$@"`, m.at, name}, args...) // not by this process, which answers what that asks
	program, output = exec.Command("bash", cd...), &bytes.Buffer{}
	program.Stdout, program.Stderr = output, output
	m.must(program.Start())
	m.Cleanup(func() { _ = program.Process.Kill() })
	return program, output
}

// ends waits for the end of a program.
func (m *heldMount) ends(program *exec.Cmd, release func()) {
	m.Helper()
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	select {
	case <-ended:
	case <-time.After(harness.ScriptPatience):
		m.Error("the program waits for the store")
		release()
		<-ended
	}
}

// contents is what the log has: paths, each with its text.
func (m *heldMount) contents() string {
	m.Helper()
	var all []string
	for v, err := range m.other.Heads(m.Context(), "/") {
		m.must(err)
		text, err := m.other.Content(m.Context(), v)
		m.must(err)
		all = append(all, v.Path+"="+string(text))
	}
	return strings.Join(all, " ")
}

// handled is a Python program that catches Ctrl-C in one call, and says so.
func handled(before, call string) []string {
	return []string{"python3", "-c", "import os\n" + before + "\ntry:\n " + call + "\nexcept KeyboardInterrupt: print('stopped')\n"}
}

// TestInterruptedPrograms presses Ctrl-C while a store does not answer. Programs end, be
// it that they handle the signal or not, while the store still does not; what they were
// doing is done by the mount, or was not begun.
func TestInterruptedPrograms(t *testing.T) {
	harness.NeedTools(t, "python3")
	for _, test := range []struct {
		name    string
		program []string
		says    string
		then    string // what the log has afterwards
	}{
		{"close", handled(`f = os.open('f', os.O_WRONLY | os.O_TRUNC); os.write(f, b'mine')`, "os.close(f)"), "stopped\n", "/d/g=g /f=mine"},
		{"rename", handled("", "os.rename('f', 'h')"), "stopped\n", "/d/g=g /h=f"},
		{"unlink", handled("", "os.unlink('f')"), "stopped\n", "/d/g=g"},
		{"mkdir", handled("", "os.mkdir('new')"), "stopped\n", "/d/g=g /f=f"},
		{"truncate", handled("", "os.truncate('f', 0)"), "stopped\n", "/d/g=g /f="},
		{"mv", []string{"mv", "f", "h"}, "", "/d/g=g /h=f"},
		{"cp", []string{"cp", "f", "h"}, "", "/d/g=g /f=f /h=f"},
		{"shell", []string{"bash", "-c", "trap 'echo stopped; exit' INT; echo mine >f; echo done"}, "stopped\n", "/d/g=g /f=mine\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newHeldMount(t, "/f", "/d/g")
			hold := m.log.Hold(logfault.BeforeCommit)
			program, output := m.start(test.program[0], test.program[1:]...)
			<-hold.Reached()
			m.must(program.Process.Signal(syscall.SIGINT))
			m.ends(program, hold.Release)
			if got := output.String(); !strings.Contains(got, test.says) {
				t.Errorf("it says %q, want %q", got, test.says)
			}
			hold.Release()
			harness.AwaitUntil(t, "the log has "+test.then, func() bool { return m.contents() == test.then })
			var shown []string // without a name that the kernel has wrong
			for _, path := range strings.Split(strings.ReplaceAll(test.then, "\n", ""), " ") {
				name, _, _ := strings.Cut(path, "=")
				shown = append(shown, "test -e ."+name)
			}
			for _, name := range []string{"f", "h"} {
				if !strings.Contains(test.then, "/"+name+"=") {
					shown = append(shown, "! test -e "+name)
				}
			}
			check, said := m.start("bash", "-c", strings.Join(shown, " && "))
			if err := check.Wait(); err != nil {
				t.Errorf("the mount shows other names than %s: %v %s", test.then, err, said)
			}
		})
	}
}

// TestInterruptedReader presses Ctrl-C while a file is fetched for a program that does
// not handle it.
func TestInterruptedReader(t *testing.T) {
	m := newHeldMount(t, "/slow")
	program, _ := m.start("cat", "slow")
	<-m.blobs.asked
	m.must(program.Process.Signal(syscall.SIGINT))
	m.ends(program, func() { close(m.blobs.gate) })
	if !t.Failed() {
		close(m.blobs.gate)
	}
}

// TestTimersDisturbNothing has a program that a timer interrupts all the time, as git's
// progress does, wait for a store. Its calls succeed.
func TestTimersDisturbNothing(t *testing.T) {
	harness.NeedTools(t, "python3")
	m := newHeldMount(t, "/f")
	hold := m.log.Hold(logfault.BeforeCommit)
	program, output := m.start("python3", "-c", `
import ctypes, os, signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, .005, .005)
libc = ctypes.CDLL(None, use_errno=True)
if libc.rename(b'f', b'g') != 0: print(os.strerror(ctypes.get_errno())) # Python's own would try again
f = os.open('g', os.O_WRONLY | os.O_TRUNC)
os.write(f, b'mine')
if libc.close(f) != 0: print(os.strerror(ctypes.get_errno()))
`)
	<-hold.Reached()
	time.Sleep(150 * time.Millisecond) // in which 30 timers end
	hold.Release()
	m.ends(program, func() {})
	if output.Len() > 0 {
		t.Errorf("it says %s", output)
	}
	if got, want := m.contents(), "/g=mine"; got != want {
		t.Errorf("the log has %s, want %s", got, want)
	}
}
