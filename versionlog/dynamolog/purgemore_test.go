package dynamolog

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mneme/cas"
	"mneme/errkind"
	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TestPurgeRevivedRows checks that rows from before an event, which a process has written
// back since, do not keep the contents that it erased.
func TestPurgeRevivedRows(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	l := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, nil))})
	var rows []types.WriteRequest
	for i, err := range l.table.below(t.Context(), e.store.ID, logPrefix) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, putRequest(i))
	}
	if _, err := l.Commit(t.Context(), e.store.ID, e.proposal()); err != nil {
		t.Fatal(err)
	}
	if err := l.table.write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	e.purge(t, l)
	l.settled()
	e.verify(t)
}

// TestPurgeOfOneObject: where one object has versions of two events, the purge of the one
// leaves what tells the contents of the other.
func TestPurgeOfOneObject(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	l := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, nil))})
	var put, removed []versionlog.Change
	for _, path := range []string{"/x1", "/x2"} {
		if _, err := e.blobs(t, nil)(e.store.ID).Put(t.Context(), []byte(path)); err != nil {
			t.Fatal(err)
		}
		put = append(put, putChange(path, path, versionlog.ExpectAny()))
		removed = append(removed, versionlog.Change{Action: versionlog.Remove, Path: path, Expect: versionlog.ExpectAny()})
	}
	c, err := l.Commit(t.Context(), e.store.ID, proposal(put...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Commit(t.Context(), e.store.ID, proposal(removed...)); err != nil {
		t.Fatal(err)
	}
	l.settled()
	denied := newSites()
	denied.Arm(fault.Fault{Action: func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
		if q := req.URL.Query(); strings.Contains(callSite(req, body), "s3") && (q.Has("versions") || q.Has("versionId")) {
			return fault.Answer(http.StatusForbidden, "AccessDenied")(req, nil, send)
		}
		return send()
	}})
	admin := e.open(t, denied, &Options{Blobs: blobsOf(e.blobs(t, denied))})
	one, two := c.Versions[0], c.Versions[1]
	redact := func(by *Log, id string) {
		t.Helper()
		if _, err := by.Commit(t.Context(), e.store.ID, redactionOf(id)); err != nil {
			t.Fatal(err)
		}
		if _, err := by.Purge(t.Context(), e.store.ID, []string{id}); err != nil {
			t.Fatal(err)
		}
	}
	redact(admin, one.ID)
	redact(l, two.ID)
	if places, err := l.Purge(t.Context(), e.store.ID, []string{one.ID, two.ID}); err != nil {
		t.Errorf("%+v, %v", places, err)
	}
	e.traces = []string{one.Digest.String(), two.Digest.String()}
	for _, p := range e.find(t) {
		t.Error("left: ", p)
	}
	if found := e.check(t, e.store.ID); found != nil {
		t.Errorf("Check reports %q", found)
	}
}

// TestPurgeAgainSoon holds that a purge whose deletions may still arrive is not finished by
// another, which says when, and that nothing is left then.
func TestPurgeAgainSoon(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	lost := newSites()
	lost.Arm(fault.Fault{Site: "s3 DELETE blobs", Times: 1, Action: fault.FailAfter})
	l := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, lost))})
	if _, err := l.Commit(t.Context(), e.store.ID, e.proposal()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		places, err := l.Purge(t.Context(), e.store.ID, e.ids)
		left := ""
		for _, p := range places {
			if p.Place == "contents in the bucket" {
				left = p.Why
			}
		}
		if err != nil || left == "" {
			t.Errorf("%+v, %v", places, err)
		}
	}
	l.serverTime = func(context.Context) (time.Time, error) { return time.Now().Add(goneFor), nil }
	e.purge(t, l)
	l.settled()
	e.verify(t)
}

// TestMadeAgain holds that a store is not made under the id of one that was deleted while a
// collector may still delete contents of that.
func TestMadeAgain(t *testing.T) {
	t.Parallel()
	r := newRace(t, newBackend(t, awstest.DynamoDB(t)))
	h := holdAt("s3 DELETE blobs", 1)
	done := r.collect(h)
	<-h.reached
	l := r.open(t, nil, &Options{Blobs: blobsOf(r.blobs(t, nil))})
	r.must(l.DeleteStore(t.Context(), r.store.ID))
	if err := l.CreateStore(t.Context(), r.store); errkind.Of(err) != errkind.Unavailable {
		t.Errorf("made again: %v", err)
	}
	close(h.release)
	<-done
	r.must(l.CreateStore(t.Context(), r.store))
	r.put()
	r.must(<-r.commit(t.Context(), l))
	if !r.has() {
		t.Error("a live head has lost its content")
	}
}

// TestForgedNotes checks that forged notes, for a time far ahead or for a commit that
// erases nothing, stop neither writers nor purges.
func TestForgedNotes(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	l := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, nil))})
	if _, err := l.Commit(t.Context(), e.store.ID, e.proposal()); err != nil {
		t.Fatal(err)
	}
	e.purge(t, l)
	l.settled()
	far := microsOf(time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC))
	gone, snap := key(e.store.ID, goneSort("forged")), key(e.store.ID, snapSort)
	gone["digests"], gone["until"] = &types.AttributeValueMemberL{Value: []types.AttributeValue{digestOf(cas.Sum([]byte("wanted")))}}, far
	snap["token"], snap["until"] = text("x"), far
	if err := l.table.write(t.Context(), []types.WriteRequest{putRequest(gone), putRequest(snap), putRequest(eraseItem(e.store.ID, 2))}); err != nil {
		t.Fatal(err)
	}
	if err := e.rebuild(t, e.store.ID); err != nil {
		t.Fatal(err)
	}
	next := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, nil))})
	if _, err := e.blobs(t, nil)(e.store.ID).Put(t.Context(), []byte("wanted")); err != nil {
		t.Fatal(err)
	}
	if _, err := next.Commit(t.Context(), e.store.ID, proposal(putChange("/w", "wanted", versionlog.ExpectAny()))); err != nil {
		t.Error(err)
	}
	next.leasing = 0
	e.purge(t, next)
	if found := e.check(t, e.store.ID); found != nil {
		t.Errorf("Check reports %q", found)
	}
}

// metaSpy calls after behind each read of a META row.
type metaSpy struct {
	database
	after func()
}

func (s *metaSpy) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	out, err := s.database.GetItem(ctx, in, o...)
	if strings.Contains(sortOf(in.Key), metaSort) {
		s.after()
	}
	return out, err
}

// TestFollowClose holds that a follower gets no event that is not finished, also where one
// comes while it waits for another.
func TestFollowClose(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	s := addStore(t, l, "notes")
	var ids []string
	for i := range 3 {
		ids = append(ids, write(t, l, s.ID, "/a.md", strings.Repeat("x", i+1)).Versions[0].ID)
	}
	l.settled()
	if _, err := l.Commit(t.Context(), s.ID, redactionOf(ids[0])); err != nil {
		t.Fatal(err)
	}
	l.settled()
	second := func() {
		var dead atomic.Bool
		dies := newSites()
		dies.Arm(fault.Fault{Action: func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
			if dead.Load() {
				return fault.FailBefore(req, body, send)
			}
			r, err := send()
			if callSite(req, body) == "TransactWriteItems LOG" {
				dead.Store(true)
			}
			return r, err
		}})
		killed, err := b.openOnce(t, dies)
		if err != nil {
			t.Error(err)
			return
		}
		killed.settling, killed.ownerPays = 500*time.Millisecond, 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = killed.Commit(ctx, s.ID, redactionOf(ids[1]))
		_ = killed.Close()
	}
	follower := b.open(t, nil, &Options{ReadOnly: true})
	n := 0
	follower.table.db = &metaSpy{follower.table.db, func() {
		st := follower.store(s.ID)
		st.mu.Lock()
		loaded := st.view != nil
		st.mu.Unlock()
		if loaded {
			if n++; n == 1 {
				second()
			}
		}
	}}
	commits, err := follower.Next(t.Context(), s.ID, 3)
	if err != nil {
		t.Fatal(err)
	}
	m := b.metaOf(t, s.ID)
	if m.redacted != 5 || m.erased != 4 {
		t.Fatalf("META: %d, %d; the second event did not come", m.redacted, m.erased)
	}
	for _, c := range commits {
		if c.Erases() && c.Seq > m.erased {
			t.Errorf("the follower got commit %d, which is not finished", c.Seq)
		}
	}
}

func (b *backend) metaOf(t testing.TB, storeID string) *meta {
	t.Helper()
	m, err := table{db: b.clients(t, nil).DynamoDB, name: b.table}.meta(t.Context(), storeID)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestEarlierStops holds that a running mneme which knows no fence makes no commit any more
// once something was condemned or erased: its condition on META is this.
func TestEarlierStops(t *testing.T) {
	t.Parallel()
	for name, erase := range map[string]func(*erasure, *Log) error{
		"condemned": func(e *erasure, l *Log) error {
			_, err := l.store(e.store.ID).condemn(t.Context(), []versionlog.Digest{cas.Sum(nil)})
			return err
		},
		"erased": func(e *erasure, l *Log) error {
			_, err := l.Commit(t.Context(), e.store.ID, e.proposal())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
			l := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, nil))})
			commits := func() bool {
				m := e.metaOf(t, e.store.ID)
				err := l.transact(t.Context(), types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
					TableName: &l.table.name, Key: key(m.ID, metaSort),
					ConditionExpression:       new("head_seq = :seq AND archived_at = :archived"),
					ExpressionAttributeValues: item{":seq": number(m.tip.Seq), ":archived": microsOf(m.ArchivedAt)},
				}})
				if err != nil && !isConditionFailed(err) {
					t.Fatal(err)
				}
				return err == nil
			}
			before := commits()
			if err := erase(e, l); err != nil {
				t.Fatal(err)
			}
			if after := commits(); !before || after {
				t.Errorf("the condition holds before: %v, after: %v", before, after)
			}
			archived := versionlog.Proposal{Key: "archive", Actor: proposal().Actor, Event: versionlog.StoreArchived()}
			if _, err := l.Commit(t.Context(), e.store.ID, &archived); err != nil {
				t.Fatal(err)
			}
			if e.metaOf(t, e.store.ID).ArchivedAt.IsZero() {
				t.Error("it was archived, and META does not say so")
			}
		})
	}
}
