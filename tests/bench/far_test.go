package bench

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
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

// far mounts a store of the corpus whose blobs are far away, with an empty
// cache, and times the first cat of one file and the first grep of all. The
// server is in this process, so only children touch the mount.
func (r *report) far(corpus string, paths []string) {
	ctx := context.Background()
	far := &farBlobs{Store: memcas.New()}
	log := memlog.New(nil)
	near := memory.NewLibrary(log, func(string) (cas.Store, error) { return far.Store, nil })
	info, err := near.CreateStore(ctx, "notes", nil)
	if err != nil {
		r.Fatal(err)
	}
	author := &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "bench"}}
	st, err := near.Open(ctx, info.ID, author)
	if err != nil {
		r.Fatal(err)
	}
	for i := 0; i < len(paths); i += benchPerDir {
		if err := fillBatch(ctx, st, corpus, paths[i:i+benchPerDir]); err != nil {
			r.Fatal(err)
		}
	}
	list := filepath.Join(r.env.Dir, "one")
	if err := os.WriteFile(list, []byte(benchFile+"\n"), 0o644); err != nil {
		r.Fatal(err)
	}
	cat, grep := timed(r.B, r.env, "read", list), grepWork(r.B, r.env).run
	took := timings{}
	gets := map[string]series{}
	for range r.rounds {
		for kind, as := range map[string]*memory.Author{"ro": nil, "rw": author} {
			dir, err := os.MkdirTemp(r.env.Dir, "far-")
			if err != nil {
				r.Fatal(err)
			}
			blobs, err := cache.New(far, &cache.Options{Dir: filepath.Join(dir, "cache")})
			if err != nil {
				r.Fatal(err)
			}
			st, err := memory.NewLibrary(log, func(string) (cas.Store, error) { return blobs, nil }).Open(ctx, info.ID, as)
			if err != nil {
				r.Fatal(err)
			}
			r.onFar(dir, st, func(at string) {
				far.gets.Store(0)
				took.add("cat", kind, cat(at))
				gets["cat"] = append(gets["cat"], float64(far.gets.Swap(0)))
				took.add("grep", kind, grep(at))
				gets["grep"] = append(gets["grep"], float64(far.gets.Swap(0)))
			})
			blobs.Close()
		}
	}
	for _, kind := range []string{"ro", "rw"} {
		r.start("blobs 20 ms away: first `cat` of one file, "+wordOf[kind], took["cat"][kind], 45, " ms")
		r.start("blobs 20 ms away: first `grep -r`, "+wordOf[kind], took["grep"][kind], 2000, " ms")
	}
	r.start("blobs 20 ms away: requests for one `cat`", gets["cat"], 0, "")
	r.start("blobs 20 ms away: requests for the `grep -r` after it", gets["grep"], 0, "")
}

// onFar runs do with the directory of a mount of st.
func (r *report) onFar(dir string, st *memory.Store, do func(at string)) {
	at := filepath.Join(dir, "mnt")
	if err := os.Mkdir(at, 0o755); err != nil {
		r.Fatal(err)
	}
	server, err := fusefs.Mount(context.Background(), at, []*memory.Store{st}, nil)
	if err != nil {
		r.Fatal(err)
	}
	do(filepath.Join(at, "notes"))
	if err := server.Close(); err != nil {
		r.Fatal(err)
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
