package dynamolog

import (
	"fmt"
	"net/http"
	"testing"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/versionlog"
)

// TestKeyBetween has another process try a commit again while what the first
// try owes is being paid, at the moment at which its key is no longer where it
// was. And before, when nothing is paid, and after.
func TestKeyBetween(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	stuck := newSites()
	l := b.open(t, stuck, nil)
	s := addStore(t, l, "notes")
	l.settled()
	pay := make(chan struct{})
	wait := func(req *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
		select {
		case <-pay:
			return send()
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	stuck.Arm(fault.Fault{Site: "TransactWriteItems OUT", Action: wait})
	p := proposal(putChange("/a", "1", versionlog.ExpectAny()))
	first, err := l.Commit(t.Context(), s.ID, p)
	if err != nil {
		t.Fatal(err)
	}
	again := *p
	again.Fresh, again.Changes = false, []versionlog.Change{putChange("/b", "2", versionlog.ExpectAny())} // the key decides
	retry := func(what string, transport *fault.Transport) {
		t.Helper()
		other := b.open(t, transport, nil)
		other.readsOnly(s.ID)
		c, err := other.Commit(t.Context(), s.ID, &again)
		if err != nil || c.Digest != first.Digest {
			t.Errorf("%s: %+v, %v", what, c, err)
		}
		closeOnce(t, other)
	}
	retry("owed", newSites())
	between := newSites()
	paid := false
	between.Arm(fault.Fault{Site: "Query OUT", Times: 1, Action: func(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
		close(pay)
		l.settled()
		paid = true
		return send()
	}})
	retry("paid before the OUT rows are read", between)
	if !paid {
		t.Error("the OUT rows were not read")
	}
	retry("paid", newSites())
	if tip, err := l.Tip(t.Context(), s.ID); err != nil || tip.Seq != 1 {
		t.Errorf("tip is %+v, %v, want commit 1", tip, err)
	}
}

// TestKeyBehindTheLast has another process commit the same, and much after it,
// between the look for the key and the commit: more than a view remembers.
func TestKeyBehindTheLast(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	first := b.open(t, nil, nil)
	s := addStore(t, first, "notes")
	write(t, first, s.ID, "/0", "1")
	p := proposal(putChange("/a", "1", versionlog.ExpectAny()))
	p.Fresh = false
	var overtaking *versionlog.Commit
	transport := newSites()
	transport.Arm(fault.Fault{Site: "GetItem KEY", Times: 1, Action: func(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
		resp, err := send()
		c, commitErr := first.Commit(t.Context(), s.ID, p)
		if overtaking = c; commitErr != nil {
			t.Error(commitErr)
			return resp, err
		}
		for i := range 6 {
			write(t, first, s.ID, "/0", fmt.Sprint("more", i))
		}
		return resp, err
	}})
	l := b.open(t, transport, nil)
	l.bounds.ring = 4
	c, err := l.Commit(t.Context(), s.ID, p)
	if err != nil || overtaking == nil || c.Digest != overtaking.Digest {
		t.Errorf("the commit is %+v, %v, want the other's, %+v", c, err, overtaking)
	}
}

// readsOnly keeps a log from paying what others owe for a store.
func (l *Log) readsOnly(storeID string) {
	o := &l.store(storeID).outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweeping = true
}
