package dynamolog

import (
	"fmt"
	"strings"
	"testing"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"

	"github.com/google/go-cmp/cmp"
)

// TestThrottledWalks holds that a walk which is refused in its middle, for longer
// than the client tries by itself, goes on where it was: it yields everything
// once, and reads no page twice. One that is refused for good ends.
func TestThrottledWalks(t *testing.T) {
	t.Parallel()
	const files, perPage, attempts = 10, 3, 5
	b := newBackend(t, awstest.DynamoDB(t))
	creator := b.open(t, nil, nil)
	s := addStore(t, creator, "notes")
	var want []string
	for i := range files {
		path := fmt.Sprintf("/d/%02d", i)
		write(t, creator, s.ID, path, "x")
		want = append(want, path)
	}
	closeOnce(t, creator)
	pages := between{partition: s.ID, from: "/", to: "0", limit: perPage}
	transport := newTransport()
	l := b.open(t, transport, nil)
	walk := func() (paths []string, err error) {
		for i, err := range l.table.rows(t.Context(), pages) {
			if err != nil {
				return paths, err
			}
			paths = append(paths, sortOf(i))
		}
		return paths, nil
	}
	transport.Reset()
	const refused = 2*attempts + 1
	armed := transport.Arm(fault.Fault{Site: "dynamodb Query", From: 3, Times: refused, Action: fault.ThroughputExceeded})
	got, err := walk()
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, paths (-want +got):\n%s", err, diff)
	}
	const requests = (files+perPage-1)/perPage + refused
	if n := transport.Calls()["dynamodb Query"]; n != requests || armed.Hits() != refused {
		t.Errorf("%d requests, %d of them refused, want %d and %d", n, armed.Hits(), requests, refused)
	}
	armed.Disarm()

	transport.Reset()
	transport.Arm(fault.Fault{Site: "dynamodb Query", From: 2, Action: fault.ThroughputExceeded})
	got, err = walk()
	if diff := cmp.Diff(want[:perPage], got); diff != "" || !isThrottled(err) {
		t.Errorf("error %v, paths (-want +got):\n%s", err, diff)
	}
	if n := transport.Calls()["dynamodb Query"]; n != 1+attempts*(maxRefusals+1) {
		t.Errorf("%d requests, want %d", n, 1+attempts*(maxRefusals+1))
	}
	n := 0
	for _, err := range l.Children(t.Context(), s.ID, "/d") {
		if err != nil && !strings.Contains(err.Error(), "fewer requests") {
			t.Errorf("children: error %v", err)
		}
		n++
	}
	if n != 1 { // the error
		t.Errorf("%d children", n)
	}
}
