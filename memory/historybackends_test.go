package memory_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"mneme/cache"
	"mneme/cas"
	"mneme/cas/dircas"
	"mneme/cas/memcas"
	"mneme/cas/s3cas"
	"mneme/cas/sizecas"
	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/dynamolog"
	"mneme/versionlog/memlog"
	"mneme/versionlog/sqlitelog"
)

// historyBackends open two libraries of the same stores, as two processes
// would.
var historyBackends = map[string]func(t *testing.T) [2]*memory.Library{
	"memlog":    func(*testing.T) [2]*memory.Library { return inMemory(nil, nil) },
	"sqlitelog": embeddedLibraries,
	"dynamolog": dynamoLibraries,
}

// inMemory is a library in memory whose commits sometimes go without a reply.
// Its log and blobs may be broken on purpose.
func inMemory(breakLog func(versionlog.Log) versionlog.Log, breakBlobs func(cas.Store) cas.Store) [2]*memory.Library {
	log := versionlog.Log(&losesReplies{Log: memlog.New(nil), random: rand.New(rand.NewPCG(1, 1))})
	if breakLog != nil {
		log = breakLog(log)
	}
	lib := memory.NewLibrary(log, blobsByStore(func(string) (cas.Store, error) {
		if breakBlobs != nil {
			return breakBlobs(memcas.New()), nil
		}
		return memcas.New(), nil
	}))
	return [2]*memory.Library{lib, lib}
}

// losesReplies makes one commit in eight whose caller is not told.
type losesReplies struct {
	versionlog.Log
	mu     sync.Mutex // guards random
	random *rand.Rand
}

// Head lets others in between a read and the write that follows.
func (l *losesReplies) Head(ctx context.Context, id, path string) (versionlog.Version, error) {
	v, err := l.Log.Head(ctx, id, path)
	runtime.Gosched()
	return v, err
}

func (l *losesReplies) Commit(ctx context.Context, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	runtime.Gosched()
	c, err := l.Log.Commit(ctx, id, p)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.random.IntN(8) == 0 {
		return nil, context.DeadlineExceeded
	}
	return c, err
}

func embeddedLibraries(t *testing.T) (libs [2]*memory.Library) {
	dir := t.TempDir()
	for i := range libs {
		log, err := sqlitelog.Open(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		libs[i] = memory.NewLibrary(log, blobsByStore(func(id string) (cas.Store, error) {
			files, err := dircas.Open(filepath.Join(dir, id), nil)
			if err != nil {
				return nil, err
			}
			return cache.New(sizecas.New(log.Blobs(id), sqlitelog.MaxContent, files), nil)
		}))
	}
	return libs
}

// dynamoLibraries lose one request in twenty, and one reply.
func dynamoLibraries(t *testing.T) (libs [2]*memory.Library) {
	table, bucket := awstest.Table(t), awstest.Bucket(t)
	if err := dynamolog.Setup(t.Context(), awstest.Clients(t, nil).DynamoDB, table, bucket, nil); err != nil {
		t.Fatal(err)
	}
	for i := range libs {
		transport := fault.New(nil)
		clients := awstest.Clients(t, transport)
		log, err := dynamolog.Open(t.Context(), clients.DynamoDB, table, clients.S3, bucket, &dynamolog.Options{Refresh: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		transport.Arm(fault.Fault{Action: lossy(uint64(i))})
		t.Cleanup(func() {
			transport.Disarm()
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		})
		libs[i] = memory.NewLibrary(log, blobsByStore(func(id string) (cas.Store, error) {
			return s3cas.Open(clients.S3, bucket, "stores/"+id), nil
		}))
	}
	return libs
}

func lossy(seed uint64) fault.Action {
	var mu sync.Mutex // guards random
	random := rand.New(rand.NewPCG(seed, 0))
	return func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
		mu.Lock()
		n := random.IntN(40)
		mu.Unlock()
		switch {
		case n < 2:
			return fault.FailBefore(req, body, send)
		case n < 4:
			return fault.FailAfter(req, body, send)
		}
		return send()
	}
}

// blobsByStore keeps what open returns.
func blobsByStore(open memory.Blobs) memory.Blobs {
	var mu sync.Mutex // guards opened
	opened := map[string]cas.Store{}
	return func(id string) (cas.Store, error) {
		mu.Lock()
		defer mu.Unlock()
		if opened[id] == nil {
			blobs, err := open(id)
			if err != nil {
				return nil, err
			}
			opened[id] = blobs
		}
		return opened[id], nil
	}
}
