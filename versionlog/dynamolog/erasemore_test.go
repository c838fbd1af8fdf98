package dynamolog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"mneme/internal/objectversions"
	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/versionlog"

	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-cmp/cmp"
)

// TestEraseWalksOnce: however many paths an event has to do with, what took place there before
// is looked for in one walk over the log.
func TestEraseWalksOnce(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	transport := newSites()
	l := b.open(t, transport, nil)
	s := addStore(t, l, "notes")
	var ids []string
	for i := range 5 {
		path := fmt.Sprint("/", i)
		write(t, l, s.ID, path, "1")
		c, err := l.Commit(t.Context(), s.ID, proposal(versionlog.Change{Action: versionlog.Remove, Path: path, Expect: versionlog.ExpectAny()}))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.Versions[0].ID)
	}
	l.settled()
	var walks atomic.Int64
	transport.Arm(fault.Fault{Site: "Query LOG", Action: func(_ *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
		if bytes.Contains(body, []byte(`"ScanIndexForward":false`)) {
			walks.Add(1)
		}
		return send()
	}})
	if _, err := l.Commit(t.Context(), s.ID, redactionOf(ids...)); err != nil {
		t.Fatal(err)
	}
	if n := walks.Load(); n != 1 {
		t.Errorf("%d walks", n)
	}
	l.settled()
	if found := b.check(t, s.ID); len(found) != 1 || !strings.Contains(found[0], "erases versions") {
		t.Errorf("Check reports %q", found)
	}
}

// TestEraseRefused: a redaction that is refused does not keep an earlier mneme from the table.
func TestEraseRefused(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	s := addStore(t, l, "notes")
	v := write(t, l, s.ID, "/a.md", "1").Versions[0]
	l.settled()
	if _, err := l.Commit(t.Context(), s.ID, redactionOf(v.ID)); !errors.Is(err, versionlog.ErrLiveHead) {
		t.Errorf("the head: %v", err)
	}
	formatIs := func(want int64) {
		t.Helper()
		i, err := l.table.get(t.Context(), formatPartition, formatSort, false)
		if n := (&row{item: i}).int("format"); err != nil || n != want {
			t.Errorf("the format is %d, %v", n, err)
		}
	}
	formatIs(format)
	write(t, l, s.ID, "/a.md", "2")
	if _, err := l.Commit(t.Context(), s.ID, redactionOf(v.ID)); err != nil {
		t.Fatal(err)
	}
	formatIs(formatErased)
}

// TestEraseSeenUnfinished: a process that does not follow, and has seen a redaction before it
// was finished, commits behind another one.
func TestEraseSeenUnfinished(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	s := addStore(t, l, "notes")
	var ids []string
	for i := range 3 {
		ids = append(ids, write(t, l, s.ID, "/a.md", fmt.Sprint(i)).Versions[0].ID)
	}
	l.settled()
	redact := func(id string) {
		t.Helper()
		if _, err := l.Commit(t.Context(), s.ID, redactionOf(id)); err != nil {
			t.Fatal(err)
		}
	}
	redact(ids[0])
	other := b.open(t, nil, nil)
	of := other.store(s.ID)
	if err := of.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.settled()
	of.mu.Lock()
	of.view.meta.erased = 0 // as META was before it was finished
	of.mu.Unlock()
	redact(ids[1])
	write(t, other, s.ID, "/b.md", "2")
}

// TestPurgeBesideFold: a snapshot that a process was making while versions were erased does not
// outlive the purge.
func TestPurgeBesideFold(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	purger := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, nil))})
	purger.leasing = 0
	for name := range map[string]bool{"snap/at/": true, "snap/pages/": true} {
		for key, err := range purger.records.list(t.Context(), storePrefix(e.store.ID)+name) {
			if err == nil {
				err = purger.records.remove(t.Context(), key)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	held := holdAt("s3 PUT other", 1)
	folder := e.open(t, held, nil)
	folder.distance = 2
	folder.store(e.store.ID).foldLater(span{4, 4})
	<-held.reached
	if _, err := purger.Commit(t.Context(), e.store.ID, e.proposal()); err != nil {
		t.Fatal(err)
	}
	places, err := purger.Purge(t.Context(), e.store.ID, e.ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		if (p.Why != "") != (p.Place == "snapshots in the bucket") {
			t.Errorf("beside it: %+v", p)
		}
	}
	close(held.release)
	folder.settled()
	e.purge(t, purger)
	purger.settled()
	e.verify(t)
}

// TestEraseSuspended: in a bucket that keeps versions no more, or did not at first, versions
// with and without an id go.
func TestEraseSuspended(t *testing.T) {
	t.Parallel()
	for _, then := range []types.BucketVersioningStatus{types.BucketVersioningStatusSuspended, types.BucketVersioningStatusEnabled} {
		t.Run("then "+string(then), func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, awstest.DynamoDB(t))
			b.keepVersions(t, types.BucketVersioningStatusEnabled)
			if then == types.BucketVersioningStatusEnabled {
				b.keepVersions(t, types.BucketVersioningStatusSuspended)
			}
			e := newErasureIn(t, b)
			b.keepVersions(t, then)
			if err := e.redactOnce(t, newSites(), e.proposal()); err != nil {
				t.Fatal(err)
			}
			e.verify(t)
		})
	}
}

// TestPurgeLeavesOldContents: where old versions of contents may not be removed, those of the
// records stay, which tell of them, and a later purge with the right to do so finds all.
func TestPurgeLeavesOldContents(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	transport := newSites()
	transport.Arm(fault.Fault{Action: func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
		if req.Method == http.MethodDelete && strings.Contains(req.URL.Path, "/blobs/") && req.URL.Query().Get("versionId") != "" {
			return fault.Answer(http.StatusForbidden, "AccessDenied")(req, nil, send)
		}
		return send()
	}})
	l := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, transport))})
	if _, err := l.Commit(t.Context(), e.store.ID, e.proposal()); err != nil {
		t.Fatal(err)
	}
	places, err := l.Purge(t.Context(), e.store.ID, e.ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		if (p.Why != "") != (p.Place == "contents in the bucket" || p.Place == "records in the bucket") {
			t.Errorf("the receipt says %+v", p)
		}
	}
	may := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, nil))})
	e.purge(t, may)
	may.settled()
	e.verify(t)
}

// TestRemoveOne: what a bucket keeps of an object whose key begins with that of another one stays.
func TestRemoveOne(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	b.keepVersions(t, types.BucketVersioningStatusEnabled)
	client := b.clients(t, nil).S3
	for range 2 {
		for _, name := range []string{"log/1", "log/1-2"} {
			if err := (records{client, b.bucket}).upload(t.Context(), name, []byte("x"), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := objectversions.RemoveOne(t.Context(), client, b.bucket, "log/1"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"log/1": 1, "log/1-2": 2} {
		if ids, err := objectversions.Kept(t.Context(), client, b.bucket, name); err != nil || len(ids) != want {
			t.Errorf("%s has %d versions, %v, want %d", name, len(ids), err, want)
		}
	}
}

// TestEraseLongerThanCalls: the erasing is not started again for each call that gives up.
func TestEraseLongerThanCalls(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	e.forge(t, e.open(t, nil, nil), e.proposal())
	transport := newSites()
	var began atomic.Int64
	reached, release := make(chan struct{}), make(chan struct{})
	transport.Arm(fault.Fault{Site: "BatchGetItem OUT", Action: func(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
		if began.Add(1) == 1 {
			close(reached)
		}
		<-release
		return send()
	}})
	l := e.open(t, transport, nil)
	change := putChange("/new", "x", versionlog.ExpectAny())
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.store(e.store.ID).awaitErased(ctx) }()
		<-reached
		cancel()
		if err := <-done; err == nil {
			t.Error("it does not wait")
		}
	}
	close(release)
	if _, err := l.Commit(t.Context(), e.store.ID, proposal(change)); err != nil {
		t.Fatal(err)
	}
	if n := began.Load(); n > 2 { // and looked at once more
		t.Errorf("it was begun %d times", n)
	}
}

// TestRebuildBesideRedaction: a rebuild that another process overtakes, which redacts and purges,
// brings nothing back; and a row that comes back all the same goes with the next purge.
func TestRebuildBesideRedaction(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	l := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, nil))})
	var memories []item
	for i, err := range l.table.below(t.Context(), e.store.ID, memPrefix) {
		if err != nil {
			t.Fatal(err)
		}
		memories = append(memories, i)
	}
	// The rebuild has rows to write, and has read what is there.
	var lost []dynamodbtypes.WriteRequest
	for _, i := range memories {
		lost = append(lost, deleteRequest(e.store.ID, sortOf(i)))
	}
	if err := l.table.write(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	overtaken := newTransport()
	overtaken.Arm(fault.Fault{Site: "dynamodb TransactWriteItems", Times: 1, Action: func(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
		if _, err := l.Commit(t.Context(), e.store.ID, e.proposal()); err != nil {
			t.Error(err)
		}
		e.purge(t, l)
		return send()
	}})
	clients := e.clients(t, overtaken)
	if err := Rebuild(t.Context(), clients.DynamoDB, e.table, clients.S3, e.bucket, e.store.ID, nil); !errors.Is(err, errBusy) {
		t.Errorf("the rebuild ends with %v", err)
	}
	if err := e.rebuild(t, e.store.ID); err != nil {
		t.Fatal(err)
	}
	l.settled()
	e.verify(t)
	var late []dynamodbtypes.WriteRequest
	for _, i := range memories {
		late = append(late, putRequest(i))
	}
	if err := l.table.write(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	e.purge(t, l)
	e.verify(t)
}

// TestRebuildBesidePurge: a rebuild that has read the records before a purge replaced them does
// not say that they are still to be purged.
func TestRebuildBesidePurge(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	l := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, nil))})
	if _, err := l.Commit(t.Context(), e.store.ID, e.proposal()); err != nil {
		t.Fatal(err)
	}
	l.settled()
	beside := newSites()
	purge := beside.Arm(fault.Fault{Site: "BatchGetItem LOG", Times: 1, Action: func(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
		e.purge(t, l)
		return send()
	}})
	clients := e.clients(t, beside)
	if err := Rebuild(t.Context(), clients.DynamoDB, e.table, clients.S3, e.bucket, e.store.ID, nil); !errors.Is(err, errBusy) || purge.Hits() != 1 {
		t.Errorf("the rebuild ends with %v, %d purges", err, purge.Hits())
	}
	l.settled()
	e.verify(t)
}

// TestErasingIsRead: from the event of a redaction on, every reader gets what it gets once the
// rows are erased, also of a process that may not erase them.
func TestErasingIsRead(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	e.forge(t, e.open(t, nil, nil), e.proposal())
	during := e.told(t)
	for _, trace := range e.traces {
		if strings.Contains(during, trace) {
			t.Errorf("before its rows are erased, readers get %s", trace)
		}
	}
	if err := e.open(t, nil, nil).store(e.store.ID).finishErasing(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e.told(t), during); diff != "" {
		t.Errorf("behind it -, before +:\n%s", diff)
	}
}

// told is all that a process which may not write is told of the past, as JSON lines.
func (e *erasure) told(t *testing.T) string {
	t.Helper()
	ctx, l := t.Context(), e.open(t, nil, &Options{ReadOnly: true})
	l.distance = 2
	var all bytes.Buffer
	to := json.NewEncoder(&all)
	note := func(what any, err error) {
		t.Helper()
		if err == nil || errors.Is(err, versionlog.ErrNotFound) {
			err = errors.Join(err, to.Encode(what))
		}
		if err != nil && !errors.Is(err, versionlog.ErrNotFound) {
			t.Error(err)
		}
	}
	for c, err := range l.Commits(ctx, e.store.ID, 0) {
		note(c, err)
		state, err := l.At(ctx, e.store.ID, c.Seq)
		if err != nil {
			t.Fatal(err)
		}
		for v, err := range state.Heads(ctx, "/", "") {
			note(v, err)
		}
	}
	for c, err := range l.CommitsBefore(ctx, e.store.ID, 0, versionlog.Filter{}) {
		note(c, err)
	}
	for _, c := range e.before {
		for i := range c.Versions {
			v := &c.Versions[i]
			one, err := l.Version(ctx, e.store.ID, v.ID)
			note(one, err)
			for v, err := range l.History(ctx, e.store.ID, v.MemoryID, 0) {
				note(v, err)
			}
			newest, err := l.Newest(ctx, e.store.ID, v.MemoryID)
			note(newest, err)
			for _, path := range []string{v.Path, v.From} {
				last, err := l.Last(ctx, e.store.ID, path)
				note(last, err)
				for v, err := range l.PathHistory(ctx, e.store.ID, path) {
					note(v, err)
				}
			}
		}
	}
	return all.String()
}
