package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"mneme/internal/awsconf"
	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const childVariable = "MNEME_DYNAMOLOG_TEST_CHILD"

// child commits three times to a store, and never gets to record anything: its
// requests to S3 hang until it is killed.
func child(args string) error {
	fields := strings.Fields(args)
	ctx := context.Background()
	transport := newSites()
	hang := func(req *http.Request, _ []byte, _ func() (*http.Response, error)) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	transport.Arm(fault.Fault{Site: "s3 PUT log", Action: hang})
	transport.Arm(fault.Fault{Site: "BatchWriteItem OUT delete", Action: hang})
	transport.Arm(fault.Fault{Site: "TransactWriteItems OUT", Action: hang})
	clients, err := awsconf.Load(ctx, &awsconf.Options{Transport: transport})
	if err != nil {
		return err
	}
	l, err := Open(ctx, clients.DynamoDB, fields[0], clients.S3, fields[1], nil)
	if err != nil {
		return err
	}
	for i := range 3 {
		if _, err := l.Commit(ctx, fields[2], proposal(putChange(fmt.Sprintf("/%d", i), "x", versionlog.ExpectAny()))); err != nil {
			return err
		}
	}
	fmt.Println("committed")
	select {}
}

// TestOutboxOfTheKilled: what a process that was killed between its transaction
// and its records owes is paid by the next that uses the store, and until then
// the history is whole all the same.
func TestOutboxOfTheKilled(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	s := addStore(t, l, "notes")
	closeOnce(t, l)

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), awstest.EnvFor(b.s3, b.dynamoDB)...)
	cmd.Env = append(cmd.Env, childVariable+"="+strings.Join([]string{b.table, b.bucket, s.ID}, " "))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 64)
	n, err := out.Read(said)
	killErr := cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if err != nil || killErr != nil || string(said[:n]) != "committed\n" {
		t.Fatalf("the child said %q, %v, %v", said[:n], err, killErr)
	}

	if found := b.check(t, s.ID); len(found) < 3 || !strings.Contains(found[0], "record 1 is not in the bucket yet") {
		t.Errorf("Check reports %q", found)
	}
	reader := b.open(t, nil, &Options{ReadOnly: true})
	head, err := reader.Head(t.Context(), s.ID, "/1")
	if err != nil {
		t.Fatal(err)
	}
	var history []versionlog.Version
	for v, err := range reader.History(t.Context(), s.ID, head.MemoryID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		history = append(history, v)
	}
	if len(history) != 1 || history[0] != head {
		t.Errorf("the history of /1 is %+v", history)
	}

	next := b.open(t, nil, nil)
	write(t, next, s.ID, "/next", "1")
	closeOnce(t, next)
	if found := b.check(t, s.ID); found != nil {
		t.Errorf("after another process has run, Check reports %q", found)
	}
}

// TestReadOnlySendsReads: a log that is open for reading sends no write, and
// refuses to.
func TestReadOnlySendsReads(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	creator := b.open(t, nil, nil)
	s := history(t, creator, "notes")
	transport := newTransport()
	l := b.open(t, transport, &Options{ReadOnly: true, Refresh: testRefresh, SnapshotDir: t.TempDir()})
	ctx := t.Context()
	headsOf(t, l, s.ID)
	for _, err := range l.Commits(ctx, s.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Next(ctx, s.ID, 3); err != nil {
		t.Fatal(err)
	}
	_, err := l.Commit(ctx, s.ID, proposal(putChange("/a", "1", versionlog.ExpectAny())))
	for what, err := range map[string]error{
		"commit": err, "create": l.CreateStore(ctx, versionlog.Store{ID: versionlog.NewStoreID(), Slug: "x"}),
		"archive": happen(ctx, l, s.ID, versionlog.StoreArchived()), "delete": l.DeleteStore(ctx, s.ID),
	} {
		if !errors.Is(err, versionlog.ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	closeOnce(t, l)
	for name := range transport.Calls() {
		if strings.Contains(name, "Write") || strings.Contains(name, "PUT") || strings.Contains(name, "DELETE") {
			t.Errorf("it sent %s", name)
		}
	}
}

// TestIdle: waiters of one process cost one stale read per refresh interval
// together, and none while this process's own commits keep them informed.
func TestIdle(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	transport := newTransport()
	l := b.open(t, transport, &Options{Refresh: time.Hour})
	s := addStore(t, l, "notes")
	write(t, l, s.ID, "/a", "1")
	l.settled()
	transport.Reset()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			after := uint64(1)
			for {
				commits, err := l.Next(ctx, s.ID, after)
				if err != nil {
					return
				}
				after += uint64(len(commits))
				if after == 6 {
					return
				}
			}
		})
	}
	for i := range 5 {
		write(t, l, s.ID, "/a", fmt.Sprint("new", i))
	}
	wg.Wait() // an hour would be too long: they heard of each commit at once
	cancel()
	calls := transport.Calls()
	if calls["dynamodb GetItem stale"] > 1 || calls["dynamodb GetItem"] > 0 || calls["dynamodb Query"] > 1 { // a look may come upon an own commit that is on its way
		t.Errorf("waiting took %v", calls)
	}
}

// TestManyHeads loads a large store's heads within bounds, and looks into it
// while they load.
func TestManyHeads(t *testing.T) {
	t.Parallel()
	n := 3000
	if os.Getenv("MNEME_TORTURE") == "1" {
		n = 100_000
	}
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	s := addStore(t, l, "notes")
	first := write(t, l, s.ID, "/first", "1").Versions[0]
	closeOnce(t, l)
	tab := table{db: b.clients(t, nil).DynamoDB, name: b.table}
	var rows []types.WriteRequest
	for i := range n { // not by commits, which would take long
		v := first
		v.Path = fmt.Sprintf("/d%02d/%06d", i%50, i)
		rows = append(rows, putRequest(versionItem(s.ID, v.Path, &v)))
	}
	if err := tab.write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	l = b.open(t, nil, nil)
	seen := 0
	for v, err := range l.Heads(t.Context(), s.ID, "/", "") {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; seen != n/2 {
			continue
		}
		// In the middle of the walk: a lookup, a listing and a write.
		if _, err := l.Head(t.Context(), s.ID, fmt.Sprintf("/d%02d/%06d", (n-1)%50, n-1)); err != nil {
			t.Error(err)
		}
		names := 0
		for _, err := range l.Children(t.Context(), s.ID, "/") {
			if err != nil {
				t.Fatal(err)
			}
			names++
		}
		if names != 51 {
			t.Errorf("%d names in /, want 51", names)
		}
		write(t, l, s.ID, v.Path, "changed")
	}
	if seen != n+1 {
		t.Errorf("%d heads, want %d", seen, n+1)
	}
	if again := headsOf(t, l, s.ID); len(again) != n+1 {
		t.Errorf("%d heads from memory, want %d", len(again), n+1)
	}

	small := b.open(t, nil, nil)
	small.bounds = bounds{facts: 100, heads: n / 2, ring: 8}
	most, seen := 0, 0
	for _, err := range small.Heads(t.Context(), s.ID, "/", "") {
		if err != nil {
			t.Fatal(err)
		}
		seen++
		most = max(most, small.kept(s.ID))
	}
	write(t, small, s.ID, "/first", "changed")
	if most > n/2+1 || small.kept(s.ID) > 101 || seen != n+1 {
		t.Errorf("of %d heads it saw %d, and kept %d while it walked and %d after that, want at most %d and 101", n+1, seen, most, small.kept(s.ID), n/2+1)
	}
}

// kept is of how many paths a log remembers what is there.
func (l *Log) kept(storeID string) int {
	s := l.store(storeID)
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.view.known)
}
