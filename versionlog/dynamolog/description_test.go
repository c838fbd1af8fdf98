package dynamolog

import (
	"bytes"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/versionlog"
)

// TestDescriptionOwedAgain updates a store between the description of an earlier update and
// the removal of the row that says that one is owed, by a process that does not live to
// describe the store itself.
func TestDescriptionOwedAgain(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	transport := newSites()
	l := b.open(t, transport, nil)
	s := addStore(t, l, "notes")
	l.settled()
	update := func(l *Log, text string) {
		t.Helper()
		if err := happen(t.Context(), l, s.ID, versionlog.StoreUpdated(versionlog.StoreUpdate{Description: &text})); err != nil {
			t.Fatal(err)
		}
	}
	paying, release := make(chan struct{}), make(chan struct{})
	var met atomic.Bool
	transport.Arm(fault.Fault{Action: func(_ *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
		if bytes.Contains(body, []byte("Delete")) && bytes.Contains(body, []byte(`OUT#00000000000000000000`)) && met.CompareAndSwap(false, true) {
			close(paying)
			<-release
		}
		return send()
	}})
	update(l, "one")
	<-paying
	failing := newSites()
	failing.Arm(fault.Fault{Site: "s3 PUT *", Action: fault.FailBefore})
	killed, err := b.openOnce(t, failing)
	if err != nil {
		t.Fatal(err)
	}
	killed.drain = time.Millisecond
	update(killed, "two")
	closeOnce(t, killed)
	close(release)
	l.settled()
	closeOnce(t, l)
	next := b.open(t, nil, nil)
	write(t, next, s.ID, "/a", "1")
	next.settled()
	closeOnce(t, next)
	if found := b.check(t, s.ID); found != nil {
		t.Errorf("Check reports %q", found)
	}
}
