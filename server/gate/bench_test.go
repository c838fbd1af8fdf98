package gate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"mneme/cas"
	"mneme/gateway"
	"mneme/server/access"
	"mneme/versionlog"
	"mneme/versionlog/sqlitelog"
)

// benchServer serves an embedded log with a store of so many memories.
func benchServer(b *testing.B, memories int) (s *server, storeID string) {
	log, err := sqlitelog.Open(b.Context(), b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = log.Close() })
	store := versionlog.Store{ID: versionlog.NewStoreID(), Slug: "notes", Name: "notes", CreatedAt: time.Now().UTC().Truncate(time.Microsecond)}
	if err := log.CreateStore(b.Context(), store); err != nil {
		b.Fatal(err)
	}
	for from := 0; from < memories; from += 10_000 {
		p := &versionlog.Proposal{Key: versionlog.NewKey(), Actor: versionlog.Actor{Kind: versionlog.ActorSession, ID: "sesn_1"}, Session: "sesn_1"}
		for i := from; i < min(memories, from+10_000); i++ {
			data := fmt.Appendf(nil, "memory %d\n", i)
			p.Changes = append(p.Changes, versionlog.Change{
				Action: versionlog.Put, Path: fmt.Sprintf("/topic-%03d/notes-%05d.md", i/500, i),
				Digest: cas.Sum(data), Size: int64(len(data)), Content: data, Expect: versionlog.ExpectAbsent(),
			})
		}
		if _, err := log.Commit(b.Context(), store.ID, p); err != nil {
			b.Fatal(err)
		}
	}
	v := &view{log, func(_ context.Context, storeID string, _ access.Right) (cas.Store, error) {
		return log.Blobs(storeID), nil
	}, "", nil}
	return newServer(b, func(*http.Request) (*view, error) { return v, nil }), store.ID
}

// BenchmarkHeads loads the heads of a store of 100,000 memories.
func BenchmarkHeads(b *testing.B) {
	s, id := benchServer(b, 100_000)
	l := s.dial(b, nil)
	for b.Loop() {
		n := 0
		for _, err := range l.Heads(b.Context(), id, "/", "") {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 100_000 {
			b.Fatal(n)
		}
	}
}

// BenchmarkBlobsFar reads 10,000 contents in batches, through a delay of 20 ms for each answer.
func BenchmarkBlobsFar(b *testing.B) {
	s, id := benchServer(b, 10_000)
	l := s.dial(b, &gateway.Options{Transport: &delayed{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}})
	var ds []cas.Digest
	for v, err := range l.Heads(b.Context(), id, "/", "") {
		if err != nil {
			b.Fatal(err)
		}
		ds = append(ds, v.Digest)
	}
	for b.Loop() {
		for some := range slices.Chunk(ds, l.Blobs(id).BatchSize()) {
			for _, data := range l.Blobs(id).GetBatch(b.Context(), some) {
				if data == nil {
					b.Fatal("a blob is missing")
				}
			}
		}
	}
}

// BenchmarkFollow tells how long a commit takes to reach a follower.
func BenchmarkFollow(b *testing.B) {
	s, id := benchServer(b, 1)
	writer, reader := s.dial(b, nil), s.dial(b, nil)
	var took []time.Duration
	seen := make(chan time.Time)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() {
		for after := uint64(1); ; {
			commits, err := reader.Capabilities().Next(ctx, id, after)
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					b.Error(err)
				}
				return
			}
			after += uint64(len(commits))
			seen <- time.Now()
		}
	}()
	for i := 0; b.Loop(); i++ {
		if _, err := writer.Commit(b.Context(), id, put("/a", fmt.Sprint(i))); err != nil {
			b.Fatal(err)
		}
		made := time.Now() // which the follower may have seen before
		took = append(took, max(0, (<-seen).Sub(made)))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// delayed is a transport to a server that is 20 ms away.
type delayed struct{ *http.Transport }

func (d *delayed) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(20 * time.Millisecond)
	return d.Transport.RoundTrip(r)
}
