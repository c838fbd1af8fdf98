package gate

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/castest"
	"mneme/cas/memcas"
	"mneme/gateway"
	"mneme/server/access"
	"mneme/versionlog"
	"mneme/versionlog/logtest"
	"mneme/versionlog/memlog"
)

// TestLog checks the protocol against the contract of a log: the client over a listener,
// and behind the handler a log without rules, since the suite proposes changes that the
// rules of a store refuse, such as digests of contents that are not stored.
func TestLog(t *testing.T) {
	logtest.Run(t, logtest.Config{
		Open: func(t testing.TB, now func() time.Time) versionlog.Log {
			return newServer(t, rawView(memlog.New(&memlog.Options{Now: now}), newBlobs())).dial(t, nil)
		},
		Share:  func(t testing.TB, l versionlog.Log) versionlog.Log { return l.(*dialled).server.dial(t, nil) },
		Remote: true, Runs: 2,
	})
}

// TestBlobs holds the protocol against the contract of a blob store.
func TestBlobs(t *testing.T) {
	castest.Run(t, castest.Config{
		Open: func(t *testing.T) cas.Store {
			blobs := newBlobs()
			l := newServer(t, rawView(memlog.New(nil), blobs)).dial(t, nil)
			return &dialledBlobs{l.Blobs("notes"), l, blobs.of("notes")}
		},
		Reopen: func(t *testing.T, s cas.Store) cas.Store {
			was := s.(*dialledBlobs)
			l := was.log.server.dial(t, nil)
			return &dialledBlobs{l.Blobs("notes"), l, was.behind}
		},
		Corrupt: func(_ *testing.T, s cas.Store, d cas.Digest, data []byte) { s.(*dialledBlobs).behind.Corrupt(d, data) },
	})
}

type dialledBlobs struct {
	*gateway.Blobs
	log    *dialled
	behind *memcas.Store
}

// blobStores are blobs in memory, by the id of their store.
type blobStores struct {
	mu     sync.Mutex
	stores map[string]*memcas.Store
}

func newBlobs() *blobStores { return &blobStores{stores: map[string]*memcas.Store{}} }

func (b *blobStores) of(storeID string) *memcas.Store {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stores[storeID] == nil {
		b.stores[storeID] = memcas.New()
	}
	return b.stores[storeID]
}

// rawView shows everybody all of a log.
func rawView(log versionlog.Log, blobs *blobStores) func(*http.Request) (*view, error) {
	v := &view{log, func(_ context.Context, storeID string, _ access.Right) (cas.Store, error) {
		return blobs.of(storeID), nil
	}, "", nil}
	return func(*http.Request) (*view, error) { return v, nil }
}

// server is a handler that listens on this machine.
type server struct {
	*Handler
	address string
	http    *http.Server
	front   atomic.Pointer[http.HandlerFunc] // what stands before the handler; nil: nothing
}

func newServer(t testing.TB, open func(*http.Request) (*view, error)) *server {
	t.Helper()
	s := &server{Handler: newHandler(open, nil)}
	s.listen(t, "127.0.0.1:0")
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *server) listen(t testing.TB, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	s.http = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if front := s.front.Load(); front != nil {
			(*front)(w, r)
			return
		}
		s.Handler.ServeHTTP(w, r)
	})}
	go func(h *http.Server) { _ = h.Serve(l) }(s.http)
}

func (s *server) stop() { _ = s.http.Close() }

// dialled is a client of a server.
type dialled struct {
	*gateway.Log
	server *server
}

func (s *server) dial(t testing.TB, opts *gateway.Options) *dialled {
	t.Helper()
	l, err := gateway.Open(t.Context(), "http://"+s.address, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &dialled{l, s}
}
