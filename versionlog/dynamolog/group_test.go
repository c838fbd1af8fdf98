package dynamolog

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/versionlog"

	"github.com/google/go-cmp/cmp"
)

// TestCommitsShareTransactions: writers that wait behind one another share a
// transaction; the more, the slower the table answers.
func TestCommitsShareTransactions(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	transport := newSites()
	l := b.open(t, transport, nil)
	s := addStore(t, l, "notes")
	const writers, each = 16, 10
	transport.SetDelay(20 * time.Millisecond)
	transport.Reset()
	writeMany(t, l, s.ID, writers, each)
	sent := transport.Calls()["TransactWriteItems LOG"]
	if sent > writers*each/3 {
		t.Errorf("%d commits of %d writers took %d transactions", writers*each, writers, sent)
	}
	t.Logf("%d commits in %d transactions", writers*each, sent)
	transport.SetDelay(0)
	if tip, err := l.Tip(t.Context(), s.ID); err != nil || tip.Seq != writers*each {
		t.Errorf("tip is %+v, %v", tip, err)
	}
	closeOnce(t, l)
	if found := b.check(t, s.ID); found != nil {
		t.Errorf("Check reports %q", found)
	}
}

// TestSharedOwed: no reader misses the debts of shared transactions whose process has
// ended. The next process pays them, and the rows are then those that follow from the
// bucket.
func TestSharedOwed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newBackend(t, awstest.DynamoDB(t))
	transport := newSites()
	l, err := b.openOnce(t, transport)
	if err != nil {
		t.Fatal(err)
	}
	s := addStore(t, l, "notes")
	l.settled()
	const writers, each = 12, 3
	transport.SetDelay(20 * time.Millisecond)
	transport.Arm(fault.Fault{Site: "TransactWriteItems OUT", Action: fault.FailBefore})
	transport.Arm(fault.Fault{Site: "s3 PUT log", Action: fault.FailBefore})
	writeMany(t, l, s.ID, writers, each)
	closeOnce(t, l)
	if sent := transport.Calls()["TransactWriteItems LOG"]; sent >= writers*each {
		t.Fatalf("%d commits took %d transactions: none was shared", writers*each, sent)
	}

	reader := b.open(t, nil, &Options{ReadOnly: true})
	var commits []*versionlog.Commit
	for after := range uint64(writers * each) { // from the middle of transactions, too
		commits = commits[:0]
		for c, err := range reader.Commits(ctx, s.ID, after) {
			if err != nil {
				t.Fatal(err)
			}
			if commits = append(commits, c); c.Seq != after+uint64(len(commits)) {
				t.Fatalf("commit %d follows %d others above %d", c.Seq, len(commits)-1, after)
			}
		}
		if len(commits) != writers*each-int(after) {
			t.Fatalf("%d commits above %d, want %d", len(commits), after, writers*each-int(after))
		}
		v := commits[0].Versions[0]
		if found, err := reader.Version(ctx, s.ID, v.ID); err != nil || found != v {
			t.Errorf("version %s: %+v, %v", v.ID, found, err)
		}
	}
	for v := range reader.Heads(ctx, s.ID, "/", "") {
		n := 0
		for _, err := range reader.History(ctx, s.ID, v.MemoryID, 0) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != each {
			t.Errorf("the history of %s has %d versions, want %d", v.Path, n, each)
		}
	}

	next := b.open(t, nil, nil)
	next.ownerPays = 0 // the process that owes it has ended
	write(t, next, s.ID, "/next", "1")
	closeOnce(t, next)
	if found := b.check(t, s.ID); found != nil {
		t.Errorf("after another process has run, Check reports %q", found)
	}
	want := b.dump(t, s)
	b.empty(t, s)
	if err := b.rebuild(t, "notes"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.dump(t, s)); diff != "" {
		t.Errorf("rebuilt: want -, got +:\n%s", diff)
	}
}

// writeMany has several writers write to a path each.
func writeMany(t testing.TB, l *Log, storeID string, writers, each int) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				path := fmt.Sprintf("/%d", w)
				if _, err := l.Commit(t.Context(), storeID, proposal(putChange(path, fmt.Sprint(i), versionlog.ExpectAny()))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestOneFailsAlone: a proposal that fails does not fail those that share its
// transaction.
func TestOneFailsAlone(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	transport := newTransport()
	l := b.open(t, transport, nil)
	s := addStore(t, l, "notes")
	write(t, l, s.ID, "/there", "1")
	transport.SetDelay(20 * time.Millisecond)
	var wg sync.WaitGroup
	var conflicts atomic.Int64
	for i := range 12 {
		wg.Go(func() {
			expect := versionlog.ExpectAny()
			path := fmt.Sprintf("/%d", i)
			if i%3 == 0 {
				path, expect = "/there", versionlog.ExpectAbsent()
			}
			_, err := l.Commit(t.Context(), s.ID, proposal(putChange(path, "x", expect)))
			if i%3 == 0 && err != nil {
				conflicts.Add(1)
			} else if i%3 != 0 && err != nil {
				t.Errorf("%s: %v", path, err)
			}
		})
	}
	wg.Wait()
	if conflicts.Load() != 4 {
		t.Errorf("%d proposals failed, want 4", conflicts.Load())
	}
}

// BenchmarkWriters is 16 writers to 16 paths of one store in one process, and
// then the same number in two, with 20 ms added to every request.
func BenchmarkWriters(b *testing.B) {
	for _, processes := range []int{1, 2} {
		b.Run(fmt.Sprintf("logs=%d", processes), func(b *testing.B) {
			backend := newBackend(b, awstest.DynamoDB(b))
			transport := newTransport()
			var logs []*Log
			for range processes {
				logs = append(logs, backend.open(b, transport, nil))
			}
			s := addStore(b, logs[0], "notes")
			for _, l := range logs {
				writeMany(b, l, s.ID, 16, 1)
			}
			transport.SetDelay(20 * time.Millisecond)
			const each = 100
			transport.Reset()
			b.ResetTimer()
			for range b.N {
				var wg sync.WaitGroup
				for _, l := range logs {
					wg.Go(func() { writeMany(b, l, s.ID, 16/processes, each) })
				}
				wg.Wait()
			}
			b.ReportMetric(float64(b.N*16*each)/b.Elapsed().Seconds(), "commits/s")
			b.ReportMetric(float64(transport.Calls()["dynamodb TransactWriteItems"])/b.Elapsed().Seconds(), "transactions/s")
			b.StopTimer()
			transport.SetDelay(0)
		})
	}
}
