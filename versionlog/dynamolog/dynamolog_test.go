package dynamolog

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"mneme/cas"
	"mneme/internal/awsconf"
	"mneme/internal/testing/awstest"
	"mneme/versionlog"
	"mneme/versionlog/logtest"
)

// backend is a table and a bucket.
type backend struct {
	dynamoDB, s3  string // endpoints
	table, bucket string
}

// newBackend makes a table that is set up and a bucket, on the server of that
// endpoint.
func newBackend(t testing.TB, dynamoDB string) *backend {
	t.Helper()
	b := &backend{dynamoDB: dynamoDB, s3: awstest.S3(t), table: awstest.Name("table"), bucket: awstest.Name("bucket")}
	clients := b.clients(t, nil)
	awstest.MakeTable(t, clients.DynamoDB, b.table)
	awstest.MakeBucket(t, clients.S3, b.bucket)
	if err := Setup(t.Context(), clients.DynamoDB, b.table, b.bucket, nil); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *backend) clients(t testing.TB, transport http.RoundTripper) *awsconf.Clients {
	t.Helper()
	return awstest.ClientsFor(t, &awsconf.Options{Transport: transport}, b.s3, b.dynamoDB)
}

// open opens the log as another process would.
func (b *backend) open(t testing.TB, transport http.RoundTripper, opts *Options) *Log {
	t.Helper()
	clients := b.clients(t, transport)
	l, err := Open(t.Context(), clients.DynamoDB, b.table, clients.S3, b.bucket, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeOnce(t, l) })
	return l
}

// closeOnce closes a log that the test may have closed before.
func closeOnce(t testing.TB, l *Log) {
	select {
	case <-l.closing:
		return
	default:
	}
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

const testRefresh = 20 * time.Millisecond

func TestLog(t *testing.T) {
	t.Run("dynoxide", func(t *testing.T) { runSuite(t, awstest.DynamoDB(t), defaultBounds, machineRuns, 1) })
	t.Run("DynamoDBLocal", func(t *testing.T) { runSuite(t, awstest.DynamoDBLocal(t), defaultBounds, slowRuns, repeatParts) })
}

// TestLogForgets runs the suite on views that know little, and with many snapshots.
func TestLogForgets(t *testing.T) {
	runSuite(t, awstest.DynamoDB(t), bounds{facts: 3, ring: 8}, machineRuns, repeatParts)
}

// machineRuns is how many histories the suite's state machine draws. Every step is
// several requests to a server; the other logs draw as many as rapid wants.
const machineRuns = 12

// slowRuns is machineRuns for a server that is slow, and takes the same requests whatever
// the history.
const slowRuns = 1

// repeatParts is logtest.Config.Parts for runs that another test makes with other bounds or
// another server.
const repeatParts = 3

func runSuite(t *testing.T, server string, known bounds, runs, parts int) {
	var mu sync.Mutex // guards backends
	backends := map[*Log]*backend{}
	open := func(t testing.TB, b *backend, now func() time.Time) versionlog.Log {
		l := b.open(t, nil, &Options{Now: now, Refresh: testRefresh})
		l.bounds = known
		if known.facts < defaultBounds.facts {
			l.distance = 2
		}
		mu.Lock()
		defer mu.Unlock()
		backends[l] = b
		return l
	}
	of := func(l versionlog.Log) *backend {
		mu.Lock()
		defer mu.Unlock()
		return backends[l.(*Log)]
	}
	logtest.Run(t, logtest.Config{
		Remote: true, Runs: runs, Slow: runs == slowRuns, Parts: parts,
		Open: func(t testing.TB, now func() time.Time) versionlog.Log { return open(t, newBackend(t, server), now) },
		Reopen: func(t testing.TB, l versionlog.Log) versionlog.Log {
			closeOnce(t, l.(*Log))
			return open(t, of(l), l.(*Log).now)
		},
		Share: func(t testing.TB, l versionlog.Log) versionlog.Log { return open(t, of(l), l.(*Log).now) },
	})
}

func addStore(t testing.TB, l *Log, slug string) versionlog.Store {
	t.Helper()
	s := versionlog.Store{ID: versionlog.NewStoreID(), Slug: slug}
	if err := l.CreateStore(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// happen commits an event.
func happen(ctx context.Context, l *Log, storeID string, e *versionlog.Event) error {
	_, err := l.Commit(ctx, storeID, eventProposal(e))
	return err
}

func eventProposal(e *versionlog.Event) *versionlog.Proposal {
	p := proposal()
	p.Event = e
	return p
}

func proposal(changes ...versionlog.Change) *versionlog.Proposal {
	return &versionlog.Proposal{
		Key: versionlog.NewKey(), Fresh: true, Actor: versionlog.Actor{Kind: versionlog.ActorSession, ID: "agent"}, Changes: changes,
	}
}

func putChange(path, content string, expect versionlog.Expectation) versionlog.Change {
	return versionlog.Change{
		Action: versionlog.Put, Path: path, Digest: cas.Sum([]byte(content)), Size: int64(len(content)), Expect: expect,
	}
}

func write(t testing.TB, l *Log, storeID, path, content string) *versionlog.Commit {
	t.Helper()
	c, err := l.Commit(t.Context(), storeID, proposal(putChange(path, content, versionlog.ExpectAny())))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestKnownSiblingLeaves renames the one memory that a view knows of in a
// directory to the directory's own path, where others are left.
func TestKnownSiblingLeaves(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	writer := b.open(t, nil, &Options{Refresh: testRefresh})
	s := addStore(t, writer, "notes")
	write(t, writer, s.ID, "/d/a", "1")
	write(t, writer, s.ID, "/d/b", "2")
	l := b.open(t, nil, &Options{Refresh: testRefresh}) // which has not seen all heads
	for _, change := range []versionlog.Change{
		putChange("/d", "over", versionlog.ExpectAny()),
		{Action: versionlog.Rename, Path: "/d/a", To: "/d", Expect: versionlog.ExpectExists()},
	} {
		if _, err := l.Commit(t.Context(), s.ID, proposal(change)); !errors.Is(err, versionlog.ErrOverlap) {
			t.Errorf("%v of %s over /d: %v, want an overlap", change.Action, change.Path, err)
		}
	}
}
