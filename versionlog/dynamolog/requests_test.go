package dynamolog

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/versionlog"

	"github.com/google/go-cmp/cmp"
)

// newTransport returns a transport that names requests as fault.Site does, but
// for reads that may be stale.
func newTransport() *fault.Transport {
	return fault.New(&fault.Options{Site: func(req *http.Request, body []byte) string {
		name := fault.Site(req)
		if name == "dynamodb GetItem" && bytes.Contains(body, []byte(`"ConsistentRead":false`)) {
			return name + " stale"
		}
		return name
	}})
}

// idle reports whether a log has written what its commits owe, and its snapshots.
func (l *Log) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.stores {
		s.outbox.mu.Lock()
		busy := s.outbox.running > 0 || s.outbox.looking
		s.outbox.mu.Unlock()
		s.mu.Lock()
		busy = busy || s.folding || s.finishing != nil
		s.mu.Unlock()
		if busy {
			return false
		}
	}
	return true
}

// settled waits until it has.
func (l *Log) settled() {
	for !l.idle() {
		time.Sleep(time.Millisecond)
	}
}

// TestRequests holds the request budget: what each operation sends, and what it
// leaves to be sent behind it.
func TestRequests(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	creator := b.open(t, nil, nil)
	s := addStore(t, creator, "notes")
	for i := range 150 {
		write(t, creator, s.ID, fmt.Sprintf("/d/%03d", i), "1")
	}
	deleted := write(t, creator, s.ID, "/gone", "1").Versions[0]
	if _, err := creator.Commit(t.Context(), s.ID, proposal(versionlog.Change{
		Action: versionlog.Remove, Path: "/gone", Expect: versionlog.ExpectAny(),
	})); err != nil {
		t.Fatal(err)
	}
	closeOnce(t, creator)

	transport := newTransport()
	l := b.open(t, transport, nil)
	other := b.open(t, nil, nil)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	commit := func(changes ...versionlog.Change) {
		t.Helper()
		_, err := l.Commit(ctx, s.ID, proposal(changes...))
		must(err)
	}
	drain := func(heads func(func(versionlog.Version, error) bool)) {
		t.Helper()
		for _, err := range heads {
			must(err)
		}
	}
	expect := versionlog.ExpectAny()
	behind := map[string]int{"s3 PUT log": 1, "dynamodb BatchWriteItem": 2}
	for _, step := range []struct {
		name string
		do   func()
		path map[string]int // on the path of the caller
		rest map[string]int // behind it
	}{
		{"open", func() { b.open(t, transport, nil) }, map[string]int{"dynamodb GetItem": 1}, nil},
		{"find a store", func() { _, err := l.StoreNamed(ctx, "notes"); must(err) }, map[string]int{"dynamodb GetItem": 2}, nil},
		{"tip", func() { _, err := l.Tip(ctx, s.ID); must(err) }, map[string]int{"dynamodb GetItem": 1}, nil},
		{"head", func() { _, err := l.Head(ctx, s.ID, "/d/001"); must(err) }, map[string]int{"dynamodb BatchGetItem": 1}, nil},
		{"last", func() { _, err := l.Last(ctx, s.ID, "/gone"); must(err) },
			map[string]int{"dynamodb BatchGetItem": 1, "dynamodb GetItem": 1}, nil},
		{"history", func() { drain(l.History(ctx, s.ID, deleted.MemoryID, 0)) },
			map[string]int{"dynamodb GetItem": 1, "dynamodb Query": 2}, nil},
		// Following begins with the tip, and with a look for debts of others in the outbox.
		{"what was committed last", func() { _, err := l.Next(ctx, s.ID, 151); must(err) },
			map[string]int{"dynamodb GetItem": 2, "dynamodb Query": 1}, map[string]int{"dynamodb Query": 1}},
		// The first commit to a store compares bucket and table, unless a mount has.
		{"first write, of a path not known", func() { commit(putChange("/d/001", "2", expect)) },
			map[string]int{"s3 LIST log": 1, "s3 GET log": 1, "dynamodb BatchGetItem": 1, "dynamodb TransactWriteItems": 1}, behind},
		{"write of a known path", func() { commit(putChange("/d/001", "3", expect)) },
			map[string]int{"dynamodb TransactWriteItems": 1}, behind},
		{"create where nothing is known", func() { commit(putChange("/e/new", "1", expect)) },
			map[string]int{"dynamodb BatchGetItem": 1, "dynamodb Query": 1, "dynamodb TransactWriteItems": 1}, behind},
		{"conflict", func() {
			_, err := l.Commit(ctx, s.ID, proposal(putChange("/d/001", "9", versionlog.ExpectAbsent())))
			if err == nil {
				t.Error("no conflict")
			}
		}, map[string]int{"dynamodb GetItem": 1}, nil},
		{"write under a key that may be known", func() {
			p := proposal(putChange("/d/001", "3a", expect))
			p.Fresh = false
			_, err := l.Commit(ctx, s.ID, p)
			must(err)
		}, map[string]int{"dynamodb Query": 1, "dynamodb GetItem": 1, "dynamodb TransactWriteItems": 1}, behind},
		{"version", func() { _, err := l.Version(ctx, s.ID, deleted.ID); must(err) },
			map[string]int{"dynamodb GetItem": 1, "dynamodb Query": 1}, nil},
		{"write after another's", func() { write(t, other, s.ID, "/d/002", "x"); commit(putChange("/d/001", "4", expect)) },
			map[string]int{"dynamodb TransactWriteItems": 2, "dynamodb Query": 1}, behind},
		{"heads, from the table", func() { drain(l.Heads(ctx, s.ID, "/", "")) },
			map[string]int{"dynamodb GetItem": 1, "dynamodb Query": 1}, nil},
		{"heads, known", func() { drain(l.Heads(ctx, s.ID, "/", "")) }, map[string]int{"dynamodb GetItem": 1}, nil},
		{"children", func() { drain(l.Children(ctx, s.ID, "/")) },
			map[string]int{"dynamodb GetItem": 1, "dynamodb Query": 2}, nil},
		{"create when all is known", func() { commit(putChange("/f/new", "1", expect)) },
			map[string]int{"dynamodb TransactWriteItems": 1}, behind},
		{"own commits, followed", func() { _, err := l.Next(ctx, s.ID, 157); must(err) }, nil, nil},
		{"another's commit, followed", func() {
			tip, err := other.Tip(ctx, s.ID)
			must(err)
			write(t, other, s.ID, "/d/003", "y")
			_, err = l.Next(ctx, s.ID, tip.Seq)
			must(err)
		}, map[string]int{"dynamodb GetItem stale": 1, "dynamodb Query": 1}, nil},
	} {
		l.settled()
		other.settled()
		transport.Reset()
		step.do()
		l.settled()
		want := maps.Clone(step.path)
		if want == nil {
			want = map[string]int{}
		}
		for name, n := range step.rest {
			want[name] += n
		}
		if diff := cmp.Diff(want, transport.Calls()); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", step.name, diff)
		}
	}
}
