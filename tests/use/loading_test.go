package use

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/fusefs"
	"mneme/memory"
	"mneme/tests/harness"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// gatedLog does not list a whole store before its gate opens, and fails to read
// heads as long as it is down.
type gatedLog struct {
	versionlog.Log
	gate chan struct{}
	down atomic.Bool
}

func (l *gatedLog) Heads(ctx context.Context, store, prefix, after string) iter.Seq2[versionlog.Version, error] {
	if prefix == "/" {
		select {
		case <-l.gate:
		case <-ctx.Done():
		}
	}
	return l.Log.Heads(ctx, store, prefix, after)
}

func (l *gatedLog) Head(ctx context.Context, store, path string) (versionlog.Version, error) {
	if l.down.Load() {
		return versionlog.Version{}, errors.New("the log is down")
	}
	return l.Log.Head(ctx, store, path)
}

// loadingMount is a mount whose heads do not load before its gate opens. The
// server is in this process, so only children touch the mount.
type loadingMount struct {
	*harness.Env
	t     *testing.T
	log   *gatedLog
	other *memory.Store // another session
	dir   string        // of the store
	close func() error
}

const loadingFiles = 3000 // in directories of 100, /d00/f00 to /d29/f99

func newLoadingMount(t *testing.T, readOnly bool) *loadingMount {
	t.Helper()
	m := &loadingMount{Env: harness.NewEnv(t), t: t, log: &gatedLog{Log: memlog.New(nil), gate: make(chan struct{})}}
	blobs := memcas.New()
	lib := memory.NewLibrary(m.log, func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	m.check(err)
	author := &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "other"}}
	m.other, err = lib.Open(t.Context(), info.ID, author)
	m.check(err)
	for from := 0; from < loadingFiles; from += 100 {
		var changes []memory.Change
		for i := from; i < from+100; i++ {
			path := fmt.Sprintf("/d%02d/f%02d", i/100, i%100)
			changes = append(changes, memory.Change{Action: versionlog.Put, Path: path, Content: []byte(path + "\n"), Expect: versionlog.ExpectAbsent()})
		}
		_, err := m.other.Batch(t.Context(), changes, nil)
		m.check(err)
	}
	if readOnly {
		author = nil
	}
	mine, err := lib.Open(t.Context(), info.ID, author)
	m.check(err)
	at := filepath.Join(m.Env.Dir, "mnt")
	m.check(os.Mkdir(at, 0o755))
	m.dir = filepath.Join(at, "notes")
	server, err := fusefs.Mount(t.Context(), at, []*memory.Store{mine}, nil)
	m.check(err)
	m.close = server.Close
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *loadingMount) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// sh runs a script in the store's directory and wants its output.
func (m *loadingMount) sh(script, want string) {
	m.t.Helper()
	abort := func() { _ = syscall.Unmount(filepath.Dir(m.dir), syscall.MNT_DETACH) }
	r := m.Run(m.t, harness.ScriptPatience, "", abort, "bash", "-c", "cd "+m.dir+" && { "+script+"; }")
	if got := strings.TrimSpace(r.Stdout); r.Code != 0 || got != want {
		m.t.Errorf("%s: want %q, got %v", script, want, r)
	}
}

// open lets the heads load, and waits until they have.
func (m *loadingMount) open() {
	m.t.Helper()
	close(m.log.gate)
	m.sh(`for i in $(seq 600); do grep -q '^state: ok' .mneme/status && break; sleep .05; done; grep ^state .mneme/status`, "state: ok")
}

// TestUsableWhileLoading uses a mount of whose heads none has come.
func TestUsableWhileLoading(t *testing.T) {
	for name, readOnly := range map[string]bool{"read-write": false, "read-only": true} {
		t.Run(name, func(t *testing.T) {
			m := newLoadingMount(t, readOnly)
			m.sh("grep ^state .mneme/status", "state: loading the list of memories")
			m.sh("cat d07/f42", "/d07/f42")
			m.sh("ls d11 | wc -l; ls | wc -l; ls -d d11 d29 no d1 2>/dev/null || true", "100\n30\nd11\nd29")
			m.sh("test ! -e d29/no && test ! -e no/where && test -d d29 && echo so it is", "so it is")
			m.sh("find d03 d04 -type f | wc -l; grep -rc . d05 | grep -c :1", "200\n100")
			_, err := m.other.Write(t.Context(), "/d29/no", []byte("now it is\n"), versionlog.ExpectAbsent())
			m.check(err)
			_, err = m.other.Remove(t.Context(), "/d11/f00", versionlog.ExpectAny())
			m.check(err)
			m.sh("for i in $(seq 600); do test -e d29/no -a ! -e d11/f00 && break; sleep .05; done; cat d29/no; ls d11 | wc -l", "now it is\n99")
			if readOnly {
				m.open()
				m.sh("find . -type f | wc -l", fmt.Sprint(loadingFiles))
				return
			}
			m.sh("echo one > d29/f00 && echo two >> d28/f00 && cat d29/f00 d28/f00", "one\n/d28/f00\ntwo")
			m.sh("mkdir d27 2>&1 | grep -o exists; rmdir d26 2>&1 | grep -o 'not empty'; (set -C; echo x > d25/f00) 2>&1 | grep -o existing; cat d25/f00", "exists\nnot empty\nexisting\n/d25/f00")
			m.sh("mv d24 e24 && ls e24 | wc -l && test ! -e d24 && rm -r d23 && test ! -e d23 && mv d22/f00 d22/f01 && cat d22/f01", "100\n/d22/f00")
			m.sh("mkdir -p new/dir && echo x > new/dir/file && ls new/dir", "file")
			m.open()
			m.sh("find . -type f | wc -l; ls e24 | wc -l; ls -d d23 d24 2>/dev/null; cat d29/f00", fmt.Sprintf("%d\n100\none", loadingFiles-100))
			m.asLog()
		})
	}
}

// asLog compares the files with the heads of the log.
func (m *loadingMount) asLog() {
	m.t.Helper()
	var want []string
	for v, err := range m.other.Heads(m.t.Context(), "/") {
		m.check(err)
		want = append(want, "."+v.Path)
	}
	m.sh("find . -type f | LC_ALL=C sort", strings.Join(want, "\n"))
}

// TestLoadingFailsLoudly: what cannot be looked up is an error, not a file that
// does not exist, and all is well once the log answers again.
func TestLoadingFailsLoudly(t *testing.T) {
	m := newLoadingMount(t, false)
	m.log.down.Store(true)
	m.sh("cat d07/f42 2>&1 | grep -o 'Input/output error'; echo x 2>/dev/null > new || echo no", "Input/output error\nno")
	m.log.down.Store(false)
	m.sh("cat d07/f42 && echo x > new && cat new", "/d07/f42\nx")
	m.open()
	m.asLog()
}

// TestMountNeedsTheStore: what is wrong from the beginning is an error of the
// mount.
func TestMountNeedsTheStore(t *testing.T) {
	m := newLoadingMount(t, false)
	at := filepath.Join(m.Env.Dir, "second")
	m.check(os.Mkdir(at, 0o755))
	m.check(m.log.DeleteStore(t.Context(), m.other.Info().ID))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := fusefs.Mount(ctx, at, []*memory.Store{m.other}, nil); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("mount of a store that was deleted: %v", err)
	}
}
