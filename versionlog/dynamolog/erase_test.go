package dynamolog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/s3cas"
	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-cmp/cmp"
)

// marker stands in what is erased.
const marker = "xyzzy"

// erasure is a store with versions to erase, and their contents.
type erasure struct {
	*backend
	store  versionlog.Store
	before []*versionlog.Commit
	ids    []string
	traces []string // what nothing may have afterwards
}

// newErasure makes one, in a bucket that keeps versions of objects.
func newErasure(t testing.TB, b *backend) *erasure {
	t.Helper()
	b.keepVersions(t, types.BucketVersioningStatusEnabled)
	return newErasureIn(t, b)
}

// keepVersions says whether a bucket keeps versions of objects.
func (b *backend) keepVersions(t testing.TB, status types.BucketVersioningStatus) {
	t.Helper()
	_, err := b.clients(t, nil).S3.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket: &b.bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: status},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func newErasureIn(t testing.TB, b *backend) *erasure {
	t.Helper()
	l := b.open(t, nil, &Options{Blobs: blobsOf(b.blobs(t, nil))})
	l.distance, l.ownerPays = 2, 0
	e := &erasure{backend: b, store: addStore(t, l, "notes"), traces: []string{marker}}
	put := func(path, content string) versionlog.Version {
		t.Helper()
		if _, err := b.blobs(t, nil)(e.store.ID).Put(t.Context(), []byte(content)); err != nil {
			t.Fatal(err)
		}
		v := write(t, l, e.store.ID, path, content).Versions[0]
		if strings.Contains(path+content, marker) {
			e.ids = append(e.ids, v.ID)
			e.traces = append(e.traces, v.Digest.String())
		}
		return v
	}
	change := func(c versionlog.Change) {
		t.Helper()
		c.Expect = versionlog.ExpectAny()
		commit, err := l.Commit(t.Context(), e.store.ID, proposal(c))
		if err != nil {
			t.Fatal(err)
		}
		e.ids = append(e.ids, commit.Versions[0].ID)
	}
	put("/a.md", marker+" in a content")
	put("/a.md", "harmless")
	put("/"+marker, "in a path")
	change(versionlog.Change{Action: versionlog.Rename, Path: "/" + marker, To: "/moved"})
	put("/moved", "as it is now")
	put("/short", marker+", gone soon")
	change(versionlog.Change{Action: versionlog.Remove, Path: "/short"})
	put("/last", "of all")
	closeOnce(t, l)
	e.before = e.commits(t)
	return e
}

func (b *backend) blobs(t testing.TB, transport http.RoundTripper) func(string) *s3cas.Store {
	clients := b.clients(t, transport)
	return func(storeID string) *s3cas.Store { return s3cas.Open(clients.S3, b.bucket, "stores/"+storeID) }
}

func blobsOf(of func(string) *s3cas.Store) func(string) Blobs {
	return func(storeID string) Blobs { return of(storeID) }
}

func (e *erasure) commits(t testing.TB) (commits []*versionlog.Commit) {
	t.Helper()
	for c, err := range e.open(t, nil, &Options{ReadOnly: true}).Commits(t.Context(), e.store.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		commits = append(commits, c)
	}
	return commits
}

func (e *erasure) proposal() *versionlog.Proposal {
	return redactionOf(e.ids...)
}

// find returns the places that have a trace of the erased versions, in any version of an
// object.
func (e *erasure) find(t testing.TB) (places []string) {
	t.Helper()
	clients := e.clients(t, nil)
	look := func(place string, data []byte) {
		for _, trace := range e.traces {
			if bytes.Contains([]byte(place), []byte(trace)) || bytes.Contains(data, []byte(trace)) {
				places = append(places, fmt.Sprintf("%s has %s", place, trace))
			}
		}
	}
	rows, err := clients.DynamoDB.Scan(t.Context(), &dynamodb.ScanInput{TableName: &e.table})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range rows.Items {
		data, err := json.Marshal(i)
		if err != nil {
			t.Fatal(err)
		}
		look("row "+sortOf(i), data)
		if record := (&row{item: i}).bytes("record"); record != nil {
			look("record "+sortOf(i), record)
		}
	}
	objects, err := clients.S3.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &e.bucket})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects.Versions {
		out, err := clients.S3.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &e.bucket, Key: o.Key, VersionId: o.VersionId})
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(out.Body)
		out.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		look("object "+*o.Key, data)
	}
	return places
}

// verify holds the history against what it was, and all places against what must not be
// there.
func (e *erasure) verify(t testing.TB) {
	t.Helper()
	if found := e.find(t); found != nil {
		t.Errorf("left:\n%s", strings.Join(found, "\n"))
	}
	if i, err := (table{db: e.clients(t, nil).DynamoDB, name: e.table}).get(t.Context(), formatPartition, formatSort, false); err != nil || (&row{item: i}).int("format") != formatErased {
		t.Errorf("the format is %v, %v", i, err)
	}
	want := slices.Clone(e.before)
	for i := range want {
		for _, id := range e.ids {
			want[i] = want[i].Erase(id)
		}
	}
	commits := e.commits(t)
	if diff := cmp.Diff(want, commits[:len(want)]); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if n := len(commits); !commits[len(want)].IsEvent(versionlog.EventRedacted) || n > len(want)+1 && commits[n-1].IsEvent(versionlog.EventRedacted) {
		t.Errorf("%d commits behind, the first is %+v", n-len(want), commits[len(want)])
	}
	if found := e.check(t, e.store.ID); found != nil {
		t.Errorf("Check reports %q", found)
	}
	blobs := e.blobs(t, nil)(e.store.ID)
	for _, c := range commits {
		for _, v := range c.Versions {
			if v.Digest.IsZero() {
				continue
			}
			if _, err := blobs.Get(t.Context(), v.Digest); err != nil {
				t.Errorf("version %+v: %v", v, err)
			}
		}
	}
}

// verifyPast holds the past, which may be made of snapshots, against the history.
func (e *erasure) verifyPast(t testing.TB) {
	t.Helper()
	l := e.open(t, nil, &Options{ReadOnly: true})
	l.distance = 2
	commits := e.commits(t)
	for seq := range uint64(len(commits)) {
		want, err := versionlog.Replay(seq, func(yield func(*versionlog.Commit, error) bool) {
			for _, c := range commits {
				if !yield(c, nil) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.At(t.Context(), e.store.ID, seq)
		if err != nil {
			t.Fatal(err)
		}
		var both [2][]versionlog.Version
		for i, state := range []versionlog.State{want, got} {
			for v, err := range state.Heads(t.Context(), "/", "") {
				if err != nil {
					t.Fatal(err)
				}
				both[i] = append(both[i], v)
			}
		}
		if diff := cmp.Diff(both[0], both[1]); diff != "" {
			t.Errorf("at %d: want -, got +:\n%s", seq, diff)
		}
	}
}

// redactOnce redacts as a process does whose requests pass a transport, and returns
// whether all is done.
func (e *erasure) redactOnce(t testing.TB, transport *fault.Transport, p *versionlog.Proposal) error {
	t.Helper()
	l, err := e.openOnce(t, transport)
	if err != nil {
		return err
	}
	defer l.Close()
	l.settling, l.ownerPays = 500*time.Millisecond, 0
	l.blobs = blobsOf(e.blobs(t, transport))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := l.Commit(ctx, e.store.ID, p); err != nil {
		return err
	}
	_, err = l.Purge(ctx, e.store.ID, e.ids)
	return err
}

// purge purges all, which leaves nothing.
func (e *erasure) purge(t testing.TB, l *Log) {
	t.Helper()
	places, err := l.Purge(t.Context(), e.store.ID, e.ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		if p.Why != "" || p.At.IsZero() || p.Place == "" {
			t.Errorf("left: %+v", p)
		}
	}
}

// eraseSteps are the requests with which a redaction goes from one step to the next: that of
// its event, then the record in the LOG row, and so on.
var eraseSteps = []struct {
	site string
	nth  int
}{
	{"TransactWriteItems FORMAT", 1}, {"TransactWriteItems LOG", 1}, {"BatchGetItem OUT", 1},
	{"TransactWriteItems -", 1}, {"BatchWriteItem MEM", 1}, {"TransactWriteItems LOG", 3}, {"TransactWriteItems create", 1},
	{"Query ERASE", 1}, {"TransactWriteItems GONE", 1}, {"s3 DELETE blobs", 1}, {"s3 DELETE blobs", 5}, {"BatchWriteItem GONE delete", 1},
	{"TransactWriteItems SNAP", 1}, {"s3 DELETE other", 1}, {"s3 PUT log", 2}, {"s3 PUT log", 4}, {"s3 DELETE log", 1}, {"BatchWriteItem ERASE delete", 1},
}

// TestEraseCrash ends a process at each step of a redaction, before or after the request took
// effect; the next process that opens the store finishes what it began.
func TestEraseCrash(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	if found := e.find(t); len(found) < len(e.ids) {
		t.Fatalf("before, only these places have it: %q", found)
	}
	if err := e.redactOnce(t, newSites(), e.proposal()); err != nil {
		t.Fatal(err)
	}
	e.verify(t)
	for _, step := range eraseSteps {
		actions := map[string]fault.Action{"before": fault.FailBefore}
		if strings.Contains(step.site, "Write") || strings.Contains(step.site, "PUT") || strings.Contains(step.site, "DELETE") { // else it has no effect
			actions["after"] = fault.FailAfter
		}
		for name, action := range actions {
			t.Run(fmt.Sprint(name, " ", step), func(t *testing.T) {
				t.Parallel()
				e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
				transport, p := newSites(), e.proposal()
				var mu sync.Mutex // guards passed
				passed := 0
				transport.Arm(fault.Fault{Action: func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
					mu.Lock()
					if passed < step.nth && callSite(req, body) == step.site {
						if passed++; passed == step.nth {
							mu.Unlock()
							return action(req, body, send)
						}
					}
					dead := passed == step.nth
					mu.Unlock()
					if dead {
						return fault.FailBefore(req, body, send)
					}
					return send()
				}})
				failed := e.redactOnce(t, transport, p)
				if passed < step.nth {
					t.Errorf("there was no such request, and the error %v", failed)
				}
				// A content that another process has begun to delete is in its way for a while.
				next := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, nil))})
				next.serverTime = func(context.Context) (time.Time, error) { return time.Now().Add(leaseFor), nil }
				next.ownerPays = 0
				if c, err := next.Commit(t.Context(), e.store.ID, p); err != nil || !c.Erases() {
					t.Fatalf("the same again: %+v, %v, after %v", c, err, failed)
				}
				e.purge(t, next)
				next.settled()
				closeOnce(t, next)
				e.verify(t)
			})
		}
	}
}

// redactionOf proposes to erase versions.
func redactionOf(ids ...string) *versionlog.Proposal {
	p := eventProposal(versionlog.StoreRedacted(ids...))
	p.Message, p.Fresh = "a test", false
	return p
}

// TestEraseContentComesBack: a commit that needs a content which was erased since it was
// stored is refused, and made once it is stored again.
func TestEraseContentComesBack(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	blobs := blobsOf(e.blobs(t, nil))
	waiting := e.open(t, nil, &Options{Blobs: blobs})
	if err := drainSeq(waiting.Heads(t.Context(), e.store.ID, "/", "")); err != nil { // it has seen the store as it was
		t.Fatal(err)
	}
	if err := e.redactOnce(t, newSites(), e.proposal()); err != nil {
		t.Fatal(err)
	}
	const content = marker + " in a content"
	change := putChange("/again", content, versionlog.ExpectAny())
	if _, err := waiting.Commit(t.Context(), e.store.ID, proposal(change)); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("a commit without its content: %v", err)
	}
	if _, err := e.blobs(t, nil)(e.store.ID).Put(t.Context(), []byte(content)); err != nil {
		t.Fatal(err)
	}
	if _, err := waiting.Commit(t.Context(), e.store.ID, proposal(change)); err != nil {
		t.Errorf("with it: %v", err)
	}
}

// TestEraseHeldBack: while a process erases rows, a follower does not get the event, and
// every process's commit is made after that.
func TestEraseHeldBack(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	transport := newSites()
	erasing, release := make(chan struct{}), make(chan struct{})
	transport.Arm(fault.Fault{Site: "BatchGetItem OUT", Times: 1, Action: func(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
		close(erasing)
		<-release
		return send()
	}})
	tip := e.before[len(e.before)-1].Seq
	follower := e.open(t, nil, &Options{ReadOnly: true, Refresh: testRefresh})
	if _, err := follower.Next(t.Context(), e.store.ID, tip-1); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- e.redactOnce(t, transport, e.proposal()) }()
	<-erasing
	if early, err := follower.store(e.store.ID).erasedCommits(t.Context(), tip); err != nil || len(early) > 0 {
		t.Errorf("before the rows are erased, a follower gets %+v, %v", early, err)
	}
	other := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, nil))})
	if _, err := e.blobs(t, nil)(e.store.ID).Put(t.Context(), []byte("new")); err != nil {
		t.Fatal(err)
	}
	write(t, other, e.store.ID, "/new", "new")
	if m, err := other.table.meta(t.Context(), e.store.ID); err != nil || m.erased != tip+1 {
		t.Errorf("a commit was made upon %+v, %v", m, err)
	}
	got, err := follower.Next(t.Context(), e.store.ID, tip)
	if err != nil || len(got) == 0 || !got[0].Erases() {
		t.Errorf("then it gets %+v, %v", got, err)
	}
	close(release)
	<-done // it may be late, and is the same
	other.settled()
	closeOnce(t, other)
	e.verify(t)
}

// TestEraseDenied: a process that may not replace or delete objects erases the rows, and is
// not held up; one that may does the rest.
func TestEraseDenied(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	transport := newSites()
	deny := func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
		if req.Method == http.MethodDelete || req.Method == http.MethodPut && req.Header.Get("If-None-Match") == "" || req.URL.Query().Has("versions") {
			return &http.Response{
				StatusCode: http.StatusForbidden, Request: req, Header: http.Header{"Content-Type": {"application/xml"}},
				Body: io.NopCloser(strings.NewReader(`<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`)),
			}, nil
		}
		return send()
	}
	transport.Arm(fault.Fault{Action: deny})
	l := e.open(t, transport, &Options{Blobs: blobsOf(e.blobs(t, transport))})
	if _, err := l.Commit(t.Context(), e.store.ID, e.proposal()); err != nil {
		t.Fatal(err)
	}
	purged, err := l.Purge(t.Context(), e.store.ID, e.ids)
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, p := range purged {
		if p.Why != "" {
			left++
		}
	}
	if left != 3 {
		t.Errorf("the receipt is %+v", purged)
	}
	if _, err := e.blobs(t, nil)(e.store.ID).Put(t.Context(), []byte("new")); err != nil {
		t.Fatal(err)
	}
	write(t, l, e.store.ID, "/new", "new")
	l.settled()
	closeOnce(t, l)
	e.verifyPast(t)
	unfinished := []string{"record 9 erases versions, and not all of them is gone from the bucket"}
	if diff := cmp.Diff(unfinished, e.check(t, e.store.ID)); diff != "" {
		t.Errorf("Check: want -, got +:\n%s", diff)
	}
	lost := table{db: e.clients(t, nil).DynamoDB, name: e.table} // the row with the table
	if err := lost.write(t.Context(), []dynamodbtypes.WriteRequest{deleteRequest(e.store.ID, eraseSort(9))}); err != nil {
		t.Fatal(err)
	}
	if err := e.rebuild(t, e.store.ID); err != nil { // from records that have what was erased
		t.Fatal(err)
	}
	for _, place := range e.find(t) {
		if !strings.HasPrefix(place, "object") {
			t.Errorf("a rebuild has brought back %s", place)
		}
	}
	if seqs, err := (&Log{table: lost}).unpurged(t.Context(), e.store.ID); err != nil || len(seqs) != 1 {
		t.Errorf("behind a rebuild, %v, %v are to be purged", seqs, err)
	}
	if diff := cmp.Diff(unfinished, e.check(t, e.store.ID)); diff != "" {
		t.Errorf("behind a rebuild, Check: want -, got +:\n%s", diff)
	}
	may := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, nil))})
	if err := drainSeq(may.Heads(t.Context(), e.store.ID, "/", "")); err != nil { // which opens the store
		t.Error(err)
	}
	may.settled()
	if found := e.find(t); len(found) == 0 {
		t.Error("what a process does behind the calls has purged the bucket")
	}
	e.purge(t, may)
	closeOnce(t, may)
	e.verify(t)
}
