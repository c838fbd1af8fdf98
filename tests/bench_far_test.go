package tests

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"mneme/cache"
	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/fusefs"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// farDelay is how long every call of a far blob store takes.
const farDelay = 20 * time.Millisecond

type farBlobs struct {
	cas.Store
	gets atomic.Int64
}

func (s *farBlobs) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	s.gets.Add(1)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(farDelay):
	}
	return s.Store.Get(ctx, d)
}

// BenchmarkFar mounts a store of the quick corpus whose blobs are far away,
// with an empty cache, and times the first cat of one file and the first grep
// of all. The server is in this process, so only children touch the mount.
func BenchmarkFar(b *testing.B) {
	for range b.N {
		e := newEnv(b)
		corpus := filepath.Join(e.dir, "corpus")
		paths := quickCorpus(b, corpus)
		ctx := context.Background()
		far := &farBlobs{Store: memcas.New()}
		log := memlog.New(nil)
		near := memory.NewLibrary(log, func(string) (cas.Store, error) { return far.Store, nil })
		info, err := near.CreateStore(ctx, "notes", nil)
		if err != nil {
			b.Fatal(err)
		}
		author := &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "bench"}}
		st, err := near.Open(ctx, info.ID, author)
		if err != nil {
			b.Fatal(err)
		}
		for i := 0; i < len(paths); i += benchPerDir {
			if err := fillBatch(ctx, st, corpus, paths[i:i+benchPerDir]); err != nil {
				b.Fatal(err)
			}
		}
		for _, as := range []*memory.Author{nil, author} {
			name := "rw"
			if as == nil {
				name = "ro"
			}
			blobs, err := cache.New(far, &cache.Options{Dir: filepath.Join(e.dir, "cache-"+name)})
			if err != nil {
				b.Fatal(err)
			}
			if st, err = memory.NewLibrary(log, func(string) (cas.Store, error) { return blobs, nil }).Open(ctx, info.ID, as); err != nil {
				b.Fatal(err)
			}
			e.benchFar(b, name, st, far)
			blobs.Close()
		}
		b.ReportMetric(0, "ns/op")
	}
}

func fillBatch(ctx context.Context, st *memory.Store, dir string, paths []string) error {
	var changes []memory.Change
	for _, path := range paths {
		data, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		changes = append(changes, memory.Change{Action: versionlog.Put, Path: "/" + path, Content: data, Expect: versionlog.ExpectAny()})
	}
	_, err := st.Batch(ctx, changes, nil)
	return err
}

func (e *env) benchFar(b *testing.B, name string, st *memory.Store, far *farBlobs) {
	at := filepath.Join(e.dir, "far-"+name)
	if err := os.Mkdir(at, 0o755); err != nil {
		b.Fatal(err)
	}
	server, err := fusefs.Mount(context.Background(), at, []*memory.Store{st}, nil)
	if err != nil {
		b.Fatal(err)
	}
	far.gets.Store(0)
	timed := func(metric, script string) {
		start := time.Now()
		e.bench(b, "bash", "-c", "cd "+at+"/notes && "+script)
		b.ReportMetric(float64(time.Since(start).Milliseconds()), name+"-"+metric+"-ms")
		b.ReportMetric(float64(far.gets.Swap(0)), name+"-"+metric+"-gets")
	}
	timed("cat", "cat dir100/file07.md > "+e.dir+"/out")
	timed("grep", "grep -r wizards . > "+e.dir+"/out")
	if err := server.Close(); err != nil {
		b.Fatal(err)
	}
}
