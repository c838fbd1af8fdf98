package dynamolog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/internal/testing/turn"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"
)

// purposes tell the rows that a request is about, by the first sort key in it.
var (
	firstSort = regexp.MustCompile(`"(?:sk|:from)":\{"S":"([^"]*)"`)
	deletion  = regexp.MustCompile(`"DeleteRequest"`)
	kind      = regexp.MustCompile(`^[A-Z]+|^-|^/|^$`)
)

// callSite names a request by operation and purpose.
func callSite(req *http.Request, body []byte) string {
	name := fault.Site(req)
	if !strings.HasPrefix(name, "dynamodb") {
		return name
	}
	about := "?"
	if m := firstSort.FindSubmatch(body); m != nil {
		about = kind.FindString(strings.ReplaceAll(string(m[1]), `\u0000`, ""))
	}
	switch {
	case about == "" || about == "?":
		about = "store" // all its rows
	case strings.Contains(name, "TransactWrite") && about == "META":
		switch {
		case bytes.Contains(body, []byte(`"Delete"`)):
			about = "delete"
		default:
			about = "create"
		}
	case deletion.Match(body):
		about += " delete"
	}
	return strings.TrimPrefix(name, "dynamodb ") + " " + about
}

// newSites returns a transport that names requests as callSite does.
func newSites() *fault.Transport { return fault.New(&fault.Options{Site: callSite}) }

// openOnce opens the log on clients that try everything once, so that what
// is tried again is the log's own doing.
func (b *backend) openOnce(t testing.TB, transport http.RoundTripper) (*Log, error) {
	t.Helper()
	clients := b.clients(t, transport)
	db := dynamodb.New(clients.DynamoDB.Options(), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	objects := s3.New(clients.S3.Options(), func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
	l, err := Open(t.Context(), db, b.table, objects, b.bucket, &Options{Refresh: testRefresh})
	if err == nil {
		l.drain = 300 * time.Millisecond
	}
	return l, err
}

// work is a workload and what became of it.
type work struct {
	ctx   context.Context
	log   *Log
	store versionlog.Store
	acked []*versionlog.Commit
	first *versionlog.Proposal
	open  *versionlog.Proposal // failed, so its outcome is not known
	again func() (*Log, error) // opens another log over the same transport
}

func (w *work) commit(changes ...versionlog.Change) error { return w.propose(proposal(changes...)) }

func (w *work) propose(p *versionlog.Proposal) error {
	c, err := w.log.Commit(w.ctx, w.store.ID, p)
	again := *p
	again.Fresh = false
	if err != nil {
		w.open = &again
		return err
	}
	if w.acked = append(w.acked, c); len(w.acked) == 1 {
		w.first = &again
	}
	return nil
}

func drainSeq[T any](seq func(func(T, error) bool)) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

// run does everything that a log is asked to, until something fails.
func (w *work) run() error {
	expect := versionlog.ExpectAny()
	id := w.store.ID
	other := versionlog.Store{ID: versionlog.NewStoreID(), Slug: "other"}
	revive := putChange("/again", "7", expect)
	for _, step := range []func() error{
		func() error { return w.log.CreateStore(w.ctx, w.store) },
		func() error { return w.commit(putChange("/a", "1", versionlog.ExpectAbsent())) },
		func() error { return w.commit(putChange("/d/b", "1", expect), putChange("/d/c", "1", expect)) },
		func() error {
			return w.commit(putChange("/a", "2", versionlog.ExpectVersion(w.acked[0].Versions[0].ID)))
		},
		func() error {
			return w.commit(versionlog.Change{Action: versionlog.Rename, Path: "/a", To: "/e/a", Expect: expect})
		},
		func() error {
			return w.commit(versionlog.Change{Action: versionlog.Remove, Path: "/e/a", Expect: expect})
		},
		func() error {
			revive.MemoryID = w.acked[0].Versions[0].MemoryID
			return w.commit(revive)
		},
		func() error {
			_, err := w.log.Commit(w.ctx, id, proposal(putChange("/again", "8", versionlog.ExpectAbsent())))
			if errors.Is(err, versionlog.ErrConflict) {
				return nil
			}
			return fmt.Errorf("want a conflict: %w", err)
		},
		func() error { // a retry in another process
			l, err := w.again()
			if err != nil {
				return err
			}
			defer l.Close()
			c, err := l.Commit(w.ctx, id, w.first)
			if err == nil && c.Digest != w.acked[0].Digest {
				return fmt.Errorf("the retry made %+v", c)
			}
			return err
		},
		func() error { _, err := w.log.StoreNamed(w.ctx, w.store.Slug); return err },
		func() error { _, err := versionlog.AllStores(w.ctx, w.log); return err },
		func() error { _, err := w.log.Tip(w.ctx, id); return err },
		func() error { _, err := w.log.Head(w.ctx, id, "/again"); return err },
		func() error { _, err := w.log.Last(w.ctx, id, "/a"); return err },
		func() error { _, err := w.log.Version(w.ctx, id, w.acked[0].Versions[0].ID); return err },
		func() error { return drainSeq(w.log.History(w.ctx, id, w.acked[0].Versions[0].MemoryID, 0)) },
		func() error { return drainSeq(w.log.Heads(w.ctx, id, "/", "")) },
		func() error { return drainSeq(w.log.Heads(w.ctx, id, "/d", "")) },
		func() error { return drainSeq(w.log.Children(w.ctx, id, "/")) },
		func() error { return drainSeq(w.log.Commits(w.ctx, id, 0)) },
		func() error { _, err := w.log.Next(w.ctx, id, 0); return err },
		func() error { return w.log.CreateStore(w.ctx, other) },
		func() error {
			_, err := w.log.Commit(w.ctx, other.ID, proposal(putChange("/a", "1", expect)))
			w.log.settledOrFailing() // so that there is a record to delete
			return err
		},
		func() error { return w.log.DeleteStore(w.ctx, other.ID) },
		func() error { return w.propose(eventProposal(versionlog.StoreArchived())) },
		func() error {
			return w.commit(versionlog.Change{Action: versionlog.Remove, Path: "/d/c", Expect: expect})
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// attempt runs the workload with faults, and then looks at what it left as
// another process finds it.
func attempt(t *testing.T, b *backend, faults ...fault.Fault) map[string]int {
	t.Helper()
	transport := newSites()
	open := func() (*Log, error) {
		l, err := b.openOnce(t, transport)
		if err == nil {
			l.bounds = bounds{facts: 1, ring: 8} // so that it has to ask
			l.settling = 2 * time.Second
		}
		return l, err
	}
	l, err := open()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		transport.Arm(f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	w := &work{ctx: ctx, log: l, again: open, store: versionlog.Store{ID: versionlog.NewStoreID(), Slug: "notes-" + versionlog.NewKey()}}
	err = w.run()
	if len(faults) == 0 && err != nil {
		t.Fatal(err)
	}
	if err != nil && isVerdict(err) {
		t.Errorf("a fault became the error %v", err)
	}
	l.settledOrFailing()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	w.inspect(t, b)
	return transport.Calls()
}

// settledOrFailing waits until what is left behind commits is done, for a
// little while.
func (l *Log) settledOrFailing() {
	for end := time.Now().Add(200 * time.Millisecond); !l.idle() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// inspect opens the log as another process and holds it against what was
// acknowledged.
func (w *work) inspect(t *testing.T, b *backend) {
	t.Helper()
	l := b.open(t, nil, nil)
	ctx := t.Context()
	if _, err := l.Store(ctx, w.store.ID); errors.Is(err, versionlog.ErrNotFound) && len(w.acked) == 0 {
		if err := l.CreateStore(ctx, w.store); err != nil {
			t.Errorf("the store is not there, and cannot be made: %v", err)
		}
	} else if err != nil {
		t.Fatal(err)
	}
	var commits []*versionlog.Commit
	for c, err := range l.Commits(ctx, w.store.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		commits = append(commits, c)
	}
	landed := commits
	if n := len(commits); w.open != nil && n > 0 && commits[n-1].Key == w.open.Key {
		landed = commits[:n-1]
	}
	if diff := cmp.Diff(w.acked, landed); diff != "" && len(w.acked)+len(landed) > 0 {
		t.Errorf("acknowledged -, there +:\n%s", diff)
	}
	if w.open != nil { // the key settles it
		c, err := l.Commit(ctx, w.store.ID, w.open)
		if err != nil || len(landed) != len(commits) && c.Digest != commits[len(commits)-1].Digest {
			t.Errorf("the failed commit, tried again: %+v, %v", c, err)
		}
	}
	if err := drainSeq(l.Heads(ctx, w.store.ID, "/", "")); err != nil { // as a mount does, and so pays what is owed
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if found := b.check(t, w.store.ID); found != nil {
		t.Errorf("Check reports %q", found)
	}
}

// callSites are the requests that a log sends, by operation and what the first
// row in it is for: '/' a head, '-' what left a path.
var callSites = []string{
	"BatchGetItem /", "BatchGetItem META", "BatchWriteItem / delete", "BatchWriteItem OUT delete",
	"GetItem -", "GetItem FORMAT", "GetItem KEY", "GetItem META", "GetItem OUT", "GetItem STORE",
	"Query /", "Query LOG", "Query MEM", "Query OUT", "Query store",
	"TransactWriteItems LOG", "TransactWriteItems OUT", "TransactWriteItems create", "TransactWriteItems delete",
	"s3 DELETE log", "s3 DELETE store.json", "s3 GET log", "s3 LIST other", "s3 PUT log", "s3 PUT store.json",
}

// TestFaults makes the requests of a workload fail, before or after they took
// effect, once or from then on: the first of every call site, and under
// MNEME_TORTURE=1 every single one.
func TestFaults(t *testing.T) {
	total := 0
	for _, n := range attempt(t, newBackend(t, awstest.DynamoDB(t))) {
		total += n
	}
	var mu sync.Mutex // guards hit
	hit := map[string]bool{}
	t.Run("each", func(t *testing.T) {
		for name, action := range map[string]fault.Action{"before": fault.FailBefore, "after": fault.FailAfter} {
			noted := func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
				mu.Lock()
				hit[callSite(req, body)] = true
				mu.Unlock()
				return action(req, body, send)
			}
			for i, times := range []int{1, 0} {
				if !turn.Due(i, 2) {
					continue
				}
				run := func(what string, faults ...fault.Fault) {
					t.Run(fmt.Sprintf("%s %s times %d", name, what, times), func(t *testing.T) {
						t.Parallel()
						attempt(t, newBackend(t, awstest.DynamoDB(t)), faults...)
					})
				}
				for _, site := range callSites {
					faults := []fault.Fault{{Site: site, Times: times, Action: noted}}
					if site == "s3 GET log" { // which only follows a PUT whose reply was lost
						faults = append(faults, fault.Fault{Site: "s3 PUT log", Times: 1, Action: fault.FailAfter})
					}
					run(site, faults...)
				}
				for i := 1; i <= total && os.Getenv("MNEME_TORTURE") == "1"; i++ {
					run(fmt.Sprint(i), fault.Fault{From: i, Times: times, Action: noted})
				}
			}
		}
	})
	if diff := cmp.Diff(callSites, slices.Sorted(maps.Keys(hit))); diff != "" {
		t.Errorf("call sites: want -, hit +:\n%s", diff)
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if strings.Contains(string(stacks), "dynamolog.(*store)") {
		t.Errorf("goroutines are left:\n%s", stacks)
	}
}
