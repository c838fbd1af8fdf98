package use

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"mneme/server/access"
	"mneme/server/gate"
	"mneme/tests/harness"
	"mneme/versionlog"
)

// serveGateway serves the stores of a place on a socket in it, to which its programs go from
// then on: they know of nothing else. stop ends the server, and start brings it back.
func serveGateway(t *testing.T, e *harness.Env) (stop, start func()) {
	t.Helper()
	lib, err := harness.OpenEmbedded(t.Context(), e.Stores)
	if err != nil {
		t.Fatal(err)
	}
	caller := &access.Caller{Library: lib.Library, Actor: versionlog.Actor{Kind: versionlog.ActorAPIKey, ID: "apikey_1"}, Everywhere: access.Admin}
	handler := gate.New(func(r *http.Request) (*access.Caller, error) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			return nil, access.ErrUnauthenticated
		}
		return caller, nil
	}, nil)
	socket := filepath.Join(e.Dir, "s")
	var server *http.Server
	start = func() {
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server = &http.Server{Handler: handler}
		go func(s *http.Server) { _ = s.Serve(l) }(server)
	}
	stop = func() { _ = server.Close() }
	start()
	t.Cleanup(func() {
		stop()
		if err := lib.Close(); err != nil {
			t.Error(err)
		}
	})
	e.Vars = append(e.Vars, "MNEME_URL=http+unix://"+socket, "MNEME_TOKEN=secret")
	return stop, start
}

// TestGatewayMount mounts a store through the socket of a server, where there is no network and
// no credential but a token.
func TestGatewayMount(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("first") // so that there is a library to serve
	stop, start := serveGateway(t, e)
	e.Alone = true
	m := e.Mount(t, "notes")
	m.Sh(t, `set -e
mkdir -p topic; for i in $(seq 1 50); do echo "note $i" > topic/$i.md; done
test "$(cat topic/*.md | wc -l)" = 50
echo more >> topic/7.md; mv topic/7.md seven.md; rm topic/8.md
test "$(cat seven.md)" = "note 7
more"`)
	other := e.Mount(t, "notes")
	if out := other.Sh(t, `grep -r note . | wc -l; cat seven.md`); out != "49\nnote 7\nmore\n" {
		t.Errorf("another mount reads %q", out)
	}
	m.Sh(t, `echo of the other > told`)
	other.Eventually(t, `test "$(cat told)" = "of the other"`)
	if log := e.Must(t, "log", "notes:/told", "--json"); !strings.Contains(log, `"apikey_1"`) || !strings.Contains(log, m.Session) {
		t.Errorf("who wrote it is %s", log)
	}

	stop()
	if out := other.Sh(t, `cat seven.md`); out != "note 7\nmore\n" {
		t.Errorf("what was read before is %q without a server", out)
	}
	wait := m.Background(t, `echo later > later; cat later`)
	start()
	if r := wait(); r.Code != 0 || r.Stdout != "later\n" {
		t.Errorf("a write while there is no server: %v", r)
	}
	other.Eventually(t, `test "$(cat later)" = later`)
}
