package dynamolog

import (
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/versionlog"
)

// TestUpdatesOfOthers: a process that commits while others update the store, however often,
// succeeds, and keeps its view.
func TestUpdatesOfOthers(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	other := b.open(t, nil, nil)
	s := addStore(t, other, "notes")
	update := func() {
		text := versionlog.NewKey()
		if err := happen(t.Context(), other, s.ID, versionlog.StoreUpdated(versionlog.StoreUpdate{Description: &text})); err != nil {
			t.Error(err)
		}
	}
	transport := newSites()
	l := b.open(t, transport, nil)
	write(t, l, s.ID, "/a", "1")
	known := l.store(s.ID).view
	transport.Arm(fault.Fault{Site: "TransactWriteItems LOG", Times: maxDisagreements + 2, Action: func(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
		update()
		return send()
	}})
	for i := range 3 {
		write(t, l, s.ID, "/a", fmt.Sprint("more ", i))
	}
	if l.store(s.ID).view != known {
		t.Error("what was known of the store is forgotten")
	}
}

// TestRebuildKeepsUpdates: an update whose description has not come to the bucket is
// brought there by a rebuild.
func TestRebuildKeepsUpdates(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	s := addStore(t, l, "notes")
	write(t, l, s.ID, "/a", "1")
	closeOnce(t, l)
	transport := fault.New(nil)
	transport.Arm(fault.Fault{Site: "s3 PUT *", Action: fault.FailBefore})
	l = b.open(t, transport, nil)
	l.drain = 100 * time.Millisecond
	bytes := int64(5)
	err := happen(t.Context(), l, s.ID, versionlog.StoreUpdated(versionlog.StoreUpdate{QuotaBytes: &bytes}))
	if err != nil {
		t.Fatal(err)
	}
	want, err := l.Store(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // it could not write the description
	if err := b.rebuild(t, ""); err != nil {
		t.Fatal(err)
	}
	if got, err := b.open(t, nil, nil).Store(t.Context(), s.ID); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("rebuilt, the store is %+v, %v, want %+v", got, err, want)
	}
}
