package use

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/server"
	"mneme/server/access"
	"mneme/server/events"
	"mneme/tests/harness"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// memServer is a server in a process of its own whose stores are in memory.
type memServer struct {
	URL, Store, Secret string
	pid                int
}

// memServerChild serves a store in memory until its input ends, over TLS where its argument says so.
func memServerChild(args []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	blobs := map[string]*memcas.Store{}
	lib := memory.NewLibrary(memlog.New(nil), func(id string) (cas.Store, error) {
		mu.Lock()
		defer mu.Unlock()
		if blobs[id] == nil {
			blobs[id] = memcas.New()
		}
		return blobs[id], nil
	})
	info, err := lib.CreateStore(ctx, "notes", nil)
	if err != nil {
		return err
	}
	author := &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "root"}}
	registry, err := access.OpenRegistry(ctx, lib, &access.RegistryOptions{Author: author})
	if err != nil {
		return err
	}
	_, secret, err := registry.CreateKey(ctx, access.Key{Label: "all", Everywhere: access.Admin})
	registry.Close()
	if err != nil {
		return err
	}
	s, err := server.New(ctx, lib, &server.Options{Author: author})
	if err != nil {
		return err
	}
	defer s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	scheme := "http"
	if args[0] == "https" {
		scheme = "https"
		made := httptest.NewTLSServer(nil)
		certificates := made.TLS.Certificates
		made.Close()
		l = tls.NewListener(l, &tls.Config{Certificates: certificates, NextProtos: []string{"http/1.1"}})
	}
	said := json.NewEncoder(os.Stdout).Encode(memServer{URL: scheme + "://" + l.Addr().String(), Store: info.ID, Secret: secret})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return errors.Join(said, s.Serve(ctx, l))
}

// startMemServer starts such a server, in the way of mneme serve.
func startMemServer(t *testing.T, scheme string) *memServer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, scheme)
	cmd.Env = append(os.Environ(), harness.ChildVariable+"=memserver", "GODEBUG=clobberfree=1,gcshrinkstackoff=1,asyncpreemptoff=1")
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		t.Fatal(err)
	}
	harness.StartTied(t, cmd)
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	s := &memServer{pid: cmd.Process.Pid}
	if err := json.NewDecoder(out).Decode(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// client is a program with one connection to the server, which it keeps.
func (s *memServer) client(t *testing.T) *http.Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxConnsPerHost: 1}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// ask makes a request, whose answer is decoded into answer.
func (s *memServer) ask(t *testing.T, c *http.Client, method, path, body string, answer any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + s.Secret}, "Anthropic-Version": {"2026-10-21"}, "Content-Type": {"application/json"}}
	w, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil || w.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s, %v, %s", method, path, w.Status, err, text)
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(answer); err != nil {
		t.Fatalf("%s %s: %v of %s", method, path, err, text)
	}
}

// TestRedactedInMemory: a server whose log and contents are in memory keeps nothing of an erased text, also where
// connections that sent and read it idle, or one of them waits for news; with TLS that one has it until it ends.
func TestRedactedInMemory(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			s := startMemServer(t, scheme)
			text := "the-text-of-" + strings.ToUpper("canary-91c3") // which the program itself does not have
			memories := "/v1/memory_stores/" + s.Store + "/memories"
			idles, waits := s.client(t), s.client(t)
			var versions []string
			for i, c := range []*http.Client{idles, waits} {
				var made struct {
					ID      string `json:"id"`
					Version string `json:"memory_version_id"`
				}
				s.ask(t, c, "POST", memories, fmt.Sprintf(`{"path":"/%d.md","content":%q}`, i, text), &made)
				versions = append(versions, made.Version)
				var read struct{ Content string }
				s.ask(t, c, "GET", memories+"/"+made.ID, "", &read)
				if read.Content != text {
					t.Fatalf("read %q", read.Content)
				}
				s.ask(t, c, "POST", memories+"/"+made.ID, `{"content":"clean"}`, &made)
			}
			r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+strings.Replace(events.Path, "{store}", s.Store, 1), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Authorization": {"Bearer " + s.Secret}, "Accept": {"text/event-stream"}}
			stream, err := waits.Do(r)
			if err != nil || stream.StatusCode != http.StatusOK {
				t.Fatalf("%v, %v", stream, err)
			}
			defer stream.Body.Close()
			erases := s.client(t)
			for _, id := range versions {
				var erased struct{ Redaction json.RawMessage }
				s.ask(t, erases, "POST", "/v1/memory_stores/"+s.Store+"/memory_versions/"+id+"/redact", "", &erased)
			}
			if scheme == "https" {
				stream.Body.Close()
			}
			harness.Forget(t, text, s.pid)
		})
	}
}
