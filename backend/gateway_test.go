package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mneme/cas"
	"mneme/errkind"
	"mneme/forget"
	"mneme/gateway/wire"
	"mneme/memory"
	"mneme/server/access"
	"mneme/server/gate"
	"mneme/session/conflict"
	"mneme/versionlog"
	"mneme/versionlog/memlog"

	"github.com/google/go-cmp/cmp"
)

// serve serves an embedded library on a socket, and returns the library and the URL. valid is
// the credential that counts.
func serve(t *testing.T, valid *atomic.Value) (*Library, string) {
	t.Helper()
	lib, err := Open(t.Context(), fileURL(filepath.Join(t.TempDir(), "stores")), &Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	caller := &access.Caller{Library: lib.Library, Actor: versionlog.Actor{Kind: versionlog.ActorAPIKey, ID: "apikey_1"}, Everywhere: access.Admin}
	handler := gate.New(func(r *http.Request) (*access.Caller, error) {
		if r.Header.Get("Authorization") != valid.Load() {
			return nil, access.ErrUnauthenticated
		}
		return caller, nil
	}, nil)
	dir, err := os.MkdirTemp("", "gate") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), lib.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return lib, "http+unix://" + socket
}

func dial(t *testing.T, url string, opts *Options) *Library {
	t.Helper()
	lib, err := Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lib.Close(); err != nil {
			t.Error(err)
		}
	})
	return lib
}

// TestGateway works with an embedded library through a server, as with the library itself.
func TestGateway(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var valid atomic.Value
	valid.Store("Bearer one")
	behind, url := serve(t, &valid)
	file := filepath.Join(t.TempDir(), "token")
	token := func(text string) {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	token("one")
	lib := dial(t, url, &Options{TokenFile: file})
	person := versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}
	s, err := lib.CreateStore(t.Context(), "Notes", &memory.StoreOptions{MaxMemoryBytes: 4 << 20, Actor: person})
	if err != nil {
		t.Fatal(err)
	}
	st, err := lib.Open(t.Context(), s.ID, &memory.Author{Actor: person, Session: "sesn_1"})
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string][]byte{
		"/empty": {}, "/small": []byte("small\n"), "/file": bytes.Repeat([]byte("a file of the blobs\n"), 10_000), "/large": bytes.Repeat([]byte("more than rides\n"), 100_000),
	}
	for path, data := range contents {
		v, err := st.Write(t.Context(), path, data, versionlog.ExpectAbsent())
		if err != nil || v.Actor.ID != "apikey_1" || v.Session != "sesn_1" {
			t.Fatalf("write %s: %+v, %v", path, v, err)
		}
	}
	if _, err := st.Rename(t.Context(), "/small", "/d/moved", nil); err != nil {
		t.Fatal(err)
	}
	contents["/d/moved"] = contents["/small"]
	delete(contents, "/small")

	reader := dial(t, url, &Options{TokenFile: file, ReadOnly: true, Direct: true})
	other, err := reader.Open(t.Context(), s.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	heads := map[string][]byte{}
	var all []*memory.Head
	for v, err := range other.Heads(t.Context(), "/") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, memory.NewHead(&v))
	}
	for i, data := range other.Contents(t.Context(), all) {
		heads[all[i].Path()] = data
	}
	if !maps.EqualFunc(heads, contents, bytes.Equal) {
		t.Errorf("another client reads the contents of %v", slices.Sorted(maps.Keys(heads)))
	}
	if err := reader.ArchiveStore(t.Context(), s.ID, person); !errors.Is(err, versionlog.ErrReadOnly) {
		t.Errorf("a change through a library for reading: %v", err)
	}
	followGateway(t, st, other)
	verifyGateway(t, behind, lib, st, s.ID)

	valid.Store("Bearer two")
	if _, err := st.Tip(t.Context()); !errors.Is(err, ErrCredential) || errkind.Of(err) != errkind.Unauthenticated {
		t.Errorf("with a credential that has ended: %v", err)
	}
	token("two")
	if _, err := st.Tip(t.Context()); err != nil {
		t.Errorf("with another credential in the file: %v", err)
	}
	if err := lib.DeleteStore(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
	if left, err := behind.Stores(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("stores that are left: %v, %v", left, err)
	}
}

// followGateway follows a store while it is written to by another client.
func followGateway(t *testing.T, writer, reader *memory.Store) {
	t.Helper()
	from, err := reader.Tip(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	seen := make(chan uint64)
	done := make(chan error, 1)
	go func() {
		done <- reader.Follow(t.Context(), from, func(c *versionlog.Commit) error {
			seen <- c.Seq
			if c.Seq == from.Seq+5 {
				return enough
			}
			return nil
		})
	}()
	for i := range 5 {
		if _, err := writer.Write(t.Context(), "/followed", []byte{byte('a' + i)}, versionlog.ExpectAny()); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != from.Seq+uint64(i)+1 {
			t.Fatalf("commit %d came as the %dth", got, i)
		}
	}
	if err := <-done; !errors.Is(err, enough) {
		t.Error(err)
	}
}

// verifyGateway redacts, and compares the history through the server with the one behind it.
func verifyGateway(t *testing.T, behind, lib *Library, st *memory.Store, id string) {
	t.Helper()
	head, err := st.Head(t.Context(), "/followed")
	if err != nil {
		t.Fatal(err)
	}
	first := head.Parent
	if _, err := forget.Redact(t.Context(), nil, st, &forget.Request{Versions: []string{first}, Reason: "not for here"}); errkind.Of(err) != errkind.Of(memory.ErrSessionRedacts) {
		t.Errorf("a session with a key erases: %v", err)
	}
	person, err := lib.Open(t.Context(), id, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := forget.Redact(t.Context(), nil, person, &forget.Request{Versions: []string{first}, Reason: "not for here"}); err != nil {
		t.Fatal(err)
	}
	local, err := behind.Open(t.Context(), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	var through, there []*versionlog.Commit
	for s, to := range map[*memory.Store]*[]*versionlog.Commit{st: &through, local: &there} {
		for c, err := range s.Commits(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			*to = append(*to, c)
		}
	}
	if diff := cmp.Diff(there, through); diff != "" || len(there) < 10 {
		t.Errorf("the history through the server: %d commits, want -, got +:\n%.500s", len(there), diff)
	}
}

// TestGatewayPlain: a server of another machine is not spoken to in plain HTTP, and a credential
// that cannot be one is not sent, nor told.
func TestGatewayPlain(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if _, err := Open(t.Context(), "http://memory.invalid", nil); !errors.Is(err, ErrPlainHTTP) {
		t.Errorf("plain HTTP: %v", err)
	}
	t.Setenv(TokenVariable, "canary token\n")
	if _, err := Open(context.Background(), "http://127.0.0.1:1", nil); !errors.Is(err, ErrCredential) || strings.Contains(err.Error(), "canary") {
		t.Errorf("a credential of two words: %v", err)
	}
}

// TestGatewayBelievesNoID: what a server says is no way out of the directories of this machine.
func TestGatewayBelievesNoID(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	outside := filepath.Join(t.TempDir(), "outside")
	id := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := wire.Answer{Hello: &wire.Hello{Protocol: wire.Protocol}, Store: &wire.Store{StoreJSON: versionlog.StoreJSON{ID: id, Slug: "notes", Name: "Notes", MaxMemoryBytes: 1000, Content: versionlog.ContentAny}}}
		if err := json.NewEncoder(w).Encode(&answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	lib := dial(t, server.URL, nil)
	up, err := filepath.Rel(lib.conflictsDir, outside)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{up, "..", "", "x"} {
		id = bad
		if s, err := lib.FindStore(t.Context(), "notes"); errkind.Of(err) != errkind.Unsupported {
			t.Errorf("the id %q: %+v, %v", bad, s, err)
		}
		if _, err := lib.Conflicts(bad).Keep(conflict.About{Path: "/a"}, conflict.Texts{Yours: []byte("mine")}); err == nil {
			t.Errorf("a conflict was kept for the id %q", bad)
		}
	}
	if _, err := os.Lstat(outside); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the id leads to: %v", err)
	}
	id = versionlog.NewStoreID()
	if s, err := lib.FindStore(t.Context(), "notes"); err != nil || s.ID != id {
		t.Errorf("an id: %+v, %v", s, err)
	}
}

// TestTokenFile: a pipe, which would be waited for, is refused, and a file that is being
// rewritten has the credential from before.
func TestTokenFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0) // so that nothing hangs
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := writer.WriteString("one"); err != nil {
		t.Fatal(err)
	}
	if token, err := (&tokenFile{path: pipe}).token(); !errors.Is(err, errNoFile) {
		t.Errorf("a pipe: %q, %v", token, err)
	}
	f := &tokenFile{path: filepath.Join(t.TempDir(), "token")}
	for _, text := range []string{"one", ""} {
		if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if token, err := f.token(); err != nil || token != "one" {
			t.Errorf("the file has %q: %q, %v", text, token, err)
		}
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(f.path, long, long); err != nil {
		t.Fatal(err)
	}
	if token, err := f.token(); err == nil {
		t.Errorf("a file that has been empty for an hour: %q", token)
	}
}

// TestGatewayReadsAll: what a history from elsewhere has is read through a server as it is, though
// package memory would not take its paths, and its slug is longer than that of a new store.
func TestGatewayReadsAll(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var valid atomic.Value
	valid.Store("")
	behind, url := serve(t, &valid)
	s, elsewhere := versionlog.Store{ID: versionlog.NewStoreID(), Slug: strings.Repeat("odd-", 65) + "odd4", Name: "Odd", Limits: versionlog.Limits{MaxMemoryBytes: 1000, Content: versionlog.ContentAny}}, memlog.New(nil)
	if err := errors.Join(behind.Adopt(t.Context(), s), elsewhere.CreateStore(t.Context(), s)); err != nil {
		t.Fatal(err)
	}
	p := &versionlog.Proposal{Key: "k", Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}}
	for _, path := range []string{"/.mneme/x", "/" + strings.Repeat("n", 300), "/" + strings.Repeat("d/", 30) + "x", "/e\u0301", "/a\tb", "/../x", "/c//d"} {
		p.Changes = append(p.Changes, versionlog.Change{Action: versionlog.Put, Path: path, Digest: cas.Sum([]byte("x")), Size: 1, Expect: versionlog.ExpectAbsent()})
	}
	if _, err := elsewhere.Commit(t.Context(), s.ID, p); err != nil {
		t.Fatal(err)
	}
	contents := func(yield func([]byte, error) bool) { yield([]byte("x"), nil) }
	if err := errors.Join(behind.ImportContents(t.Context(), s.ID, contents, 1), behind.ImportHistory(t.Context(), s.ID, elsewhere.Commits(t.Context(), s.ID, 0))); err != nil {
		t.Fatal(err)
	}
	lib := dial(t, url, nil)
	if all, err := lib.Stores(t.Context()); err != nil || len(all) != 1 || all[0].Slug != s.Slug {
		t.Errorf("the stores: %v, %v", all, err)
	}
	st, err := lib.Open(t.Context(), s.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	heads := 0
	for v, err := range st.Heads(t.Context(), "/") {
		heads++
		if err != nil {
			t.Errorf("heads: %s, %v", v.Path, err)
		}
	}
	for c, err := range st.Commits(t.Context(), 0) {
		if err != nil || len(c.Versions) != len(p.Changes) {
			t.Errorf("commits: %+v, %v", c, err)
		}
	}
	if heads != len(p.Changes) {
		t.Errorf("%d heads, want %d", heads, len(p.Changes))
	}
}
