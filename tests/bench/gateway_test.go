package bench

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"mneme/memory"
	"mneme/server/access"
	"mneme/server/gate"
	"mneme/tests/harness"
	"mneme/versionlog"
)

// BenchmarkGateway mounts a store of 10,000 memories through a server that is 20 ms away, and
// greps all of it.
func BenchmarkGateway(b *testing.B) {
	const memories, away = 10_000, 20 * time.Millisecond
	e := harness.NewEnv(b)
	e.Store("notes")
	lib, err := harness.OpenEmbedded(b.Context(), e.Stores)
	if err != nil {
		b.Fatal(err)
	}
	defer lib.Close()
	st, err := lib.OpenNamed(b.Context(), "notes")
	if err != nil {
		b.Fatal(err)
	}
	var changes []memory.Change
	for i := range memories {
		changes = append(changes, memory.Change{
			Action: versionlog.Put, Path: fmt.Sprintf("/topic-%02d/note-%04d.md", i/100, i),
			Content: fmt.Appendf(nil, "note %d\n%01000d\n", i, i), Expect: versionlog.ExpectAny(),
		})
	}
	if _, err := st.Batch(b.Context(), changes, nil); err != nil {
		b.Fatal(err)
	}
	caller := &access.Caller{Library: lib.Library, Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}, Everywhere: access.Admin}
	handler := gate.New(func(*http.Request) (*access.Caller, error) { return caller, nil }, nil)
	socket := filepath.Join(e.Dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		b.Fatal(err)
	}
	var requests atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		time.Sleep(away)
		handler.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	e.Vars = append(e.Vars, "MNEME_URL=http+unix://"+socket)
	for b.Loop() {
		b.StopTimer()
		if err := os.RemoveAll(filepath.Join(e.Home, ".cache")); err != nil { // contents that an earlier mount has read
			b.Fatal(err)
		}
		m := e.Mount(b, "notes:ro")
		requests.Store(0)
		b.StartTimer()
		if r := m.Try(b, "grep -r nothing ."); r.Code != 1 {
			b.Fatal(r)
		}
		b.StopTimer()
		b.ReportMetric(float64(requests.Load()), "requests")
		m.Stop(b)
		b.StartTimer()
	}
}
