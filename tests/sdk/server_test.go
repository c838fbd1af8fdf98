package sdk

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mneme/internal/testing/openapitest"
)

// served is a `mneme serve`, with a key that may do everything.
type served struct {
	url           *url.URL
	secret, keyID string
	mneme         func(args ...string) *exec.Cmd // of the same stores
}

// serve starts one. MNEME_TEST_PROGRAM is the mneme; without it that is built.
func serve(t *testing.T) *served {
	dir := t.TempDir()
	program := os.Getenv("MNEME_TEST_PROGRAM")
	if program == "" {
		program = filepath.Join(dir, "mneme")
		if out, err := exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-o", program, "./cmd/mneme").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	mneme := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, append(args, "--json")...)
		cmd.Env = append(os.Environ(), "HOME="+dir, "MNEME_URL=file://"+filepath.Join(dir, "lib"))
		cmd.Stderr = &strings.Builder{}
		return cmd
	}
	cmd := mneme("serve", "--listen", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("mneme serve: %v\n%v", err, cmd.Stderr)
		}
	})
	var at struct {
		URLs []string
	}
	if err := json.NewDecoder(out).Decode(&at); err != nil {
		t.Fatalf("%v: %v", err, cmd.Stderr)
	}
	u, err := url.Parse(at.URLs[0])
	if err != nil {
		t.Fatal(err)
	}
	var key struct {
		ID, Secret string
	}
	create := mneme("key", "create", "sdk", "--admin")
	if out, err := create.Output(); err != nil || json.Unmarshal(out, &key) != nil {
		t.Fatalf("%v: %s%v", err, out, create.Stderr)
	}
	return &served{u, key.Secret, key.ID, mneme}
}

// wire is the way to a server. It holds what goes over it against the OpenAPI document, counts requests,
// and has faults.
type wire struct {
	*httptest.Server
	server http.Handler

	mu       sync.Mutex // guards what follows; a leaf
	requests int
	fault    fault // of the next request
}

type fault int

// The faults.
const (
	none  fault = iota
	fails       // it is answered 500
	reset       // its connection ends before the server has it
	lost        // its connection ends before the client has the answer
)

func (s *served) wire(t *testing.T) *wire {
	w := &wire{server: openapitest.Wrap(t, "", httputil.NewSingleHostReverseProxy(s.url))}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

// next has the next request meet a fault.
func (w *wire) next(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

// count returns how many requests there were.
func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests
}

func (w *wire) ServeHTTP(a http.ResponseWriter, q *http.Request) {
	w.mu.Lock()
	w.requests++
	now := w.fault
	w.fault = none
	w.mu.Unlock()
	switch now {
	case fails:
		a.Header().Set("Retry-After-Ms", "1")
		a.WriteHeader(http.StatusInternalServerError)
		_, _ = a.Write([]byte(`{"type":"error","error":{"type":"api_error","message":"a fault"},"request_id":"req_x"}`))
	case reset:
		panic(http.ErrAbortHandler)
	case lost:
		w.server.ServeHTTP(httptest.NewRecorder(), q)
		panic(http.ErrAbortHandler)
	default:
		w.server.ServeHTTP(a, q)
	}
}
