package dynamolog

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mneme/cache"
	"mneme/cas"
	"mneme/errkind"
	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/memory"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// held stops a process at a request of a site, before that is sent.
type held struct {
	*fault.Transport
	reached, release chan struct{}
}

func holdAt(site string, nth int) *held {
	h := &held{newSites(), make(chan struct{}), make(chan struct{})}
	var mu sync.Mutex // guards n
	n := 0
	h.Arm(fault.Fault{Action: func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
		if strings.HasPrefix(callSite(req, body), site) {
			mu.Lock()
			n++
			stop := n == nth
			mu.Unlock()
			if stop {
				close(h.reached)
				<-h.release
			}
		}
		return send()
	}})
	return h
}

// clock is one that tests move.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += by
}

// race is a content that no version has, a writer that commits it, and collectors that delete it.
type race struct {
	*backend
	*testing.T
	clock clock
	store versionlog.Store
}

const disputed = "stored, and of no version"

func newRace(t *testing.T, b *backend) *race {
	r := &race{backend: b, T: t}
	l := b.open(t, nil, nil)
	r.store = addStore(t, l, awstest.Name("store"))
	write(t, l, r.store.ID, "/first", "1")
	l.settled()
	r.put()
	return r
}

func (r *race) put() {
	r.Helper()
	if _, err := r.blobs(r.T, nil)(r.store.ID).Put(r.Context(), []byte(disputed)); err != nil {
		r.Fatal(err)
	}
}

func (r *race) has() bool {
	r.Helper()
	has, err := r.blobs(r.T, nil)(r.store.ID).Has(r.Context(), cas.Sum([]byte(disputed)))
	if err != nil {
		r.Fatal(err)
	}
	return has
}

func (r *race) process(transport http.RoundTripper) *Log {
	r.Helper()
	l := r.open(r.T, transport, &Options{Now: r.clock.now, Blobs: blobsOf(r.blobs(r.T, transport))})
	l.serverTime = func(context.Context) (time.Time, error) { return r.clock.now(), nil }
	if err := l.store(r.store.ID).load(r.Context()); err != nil {
		r.Fatal(err)
	}
	l.settled()
	return l
}

// collect deletes the content, which nothing needed before the first commit.
func (r *race) collect(transport http.RoundTripper) <-chan error {
	r.Helper()
	l := r.process(transport)
	done := make(chan error, 1)
	go func() {
		_, err := l.store(r.store.ID).removeContents(r.Context(), []versionlog.Digest{cas.Sum([]byte(disputed))}, 0, func(int) {})
		done <- err
	}()
	return done
}

func (r *race) commit(ctx context.Context, l *Log) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := l.Commit(ctx, r.store.ID, proposal(putChange("/disputed", disputed, versionlog.ExpectAny())))
		done <- err
	}()
	return done
}

// want checks how a commit ended, and that a commit that is made has its content.
func (r *race) want(want, got error) {
	r.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		r.Errorf("the commit ends with %v, want %v", got, want)
	}
	if got == nil && !r.has() {
		r.Error("a commit has a content that was deleted")
	}
}

func (r *race) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// TestFence stops collectors and a writer at each step, while the others go on.
func TestFence(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	for name, test := range map[string]func(*race){
		// A writer commits before the collector condemns, which has looked before.
		"committed_before": func(r *race) {
			collector := holdAt("TransactWriteItems GONE", 1)
			collected := r.collect(collector)
			<-collector.reached
			committed := <-r.commit(r.Context(), r.process(nil))
			close(collector.release)
			r.must(<-collected)
			r.want(nil, committed)
		},
		// The row of that commit is not to be seen at once.
		"row_late": func(r *race) {
			transport := newSites()
			l := r.process(transport)
			r.want(nil, <-r.commit(r.Context(), r.process(nil)))
			transport.Arm(fault.Fault{Site: "Query LOG", Times: 1, Action: func(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
				resp, err := send()
				if err == nil {
					err = resp.Body.Close()
					resp.Header.Del("X-Amz-Crc32")
					const none = `{"Items":[],"Count":0,"ScannedCount":0}`
					resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(none)), int64(len(none))
				}
				return resp, err
			}})
			_, err := l.store(r.store.ID).removeContents(r.Context(), []versionlog.Digest{cas.Sum([]byte(disputed))}, 0, func(int) {})
			r.must(err)
			r.want(nil, nil)
		},
		// It has looked for the content, of a store where others were condemned before, and
		// commits when the collector is done.
		"looked_before": func(r *race) {
			_, err := r.process(nil).store(r.store.ID).removeContents(r.Context(), []versionlog.Digest{cas.Sum(nil)}, 0, func(int) {})
			r.must(err)
			writer := holdAt("TransactWriteItems LOG", 1)
			committed := r.commit(r.Context(), r.process(writer))
			<-writer.reached
			r.must(<-r.collect(nil))
			close(writer.release)
			r.want(errGone, <-committed)
		},
		// It knows of no fence.
		"first_fence": func(r *race) {
			writer := holdAt("TransactWriteItems LOG", 1)
			committed := r.commit(r.Context(), r.process(writer))
			<-writer.reached
			r.must(<-r.collect(nil))
			close(writer.release)
			r.want(errGone, <-committed)
		},
		// It begins while the content is condemned, and waits.
		"condemned": func(r *race) { r.waits("Query LOG", 1) },
		"deleting":  func(r *race) { r.waits("s3 DELETE blobs", 1) },
		"deleted":   func(r *race) { r.waits("BatchWriteItem GONE", 1) },
		// It is stopped where it looks for GONE rows, until there is none any more.
		"rows_before_contents": func(r *race) {
			collector := holdAt("s3 DELETE blobs", 1)
			collected := r.collect(collector)
			<-collector.reached
			writer := holdAt("Query GONE", 1)
			committed := r.commit(r.Context(), r.process(writer))
			<-writer.reached
			close(collector.release)
			r.must(<-collected)
			close(writer.release)
			r.want(errGone, <-committed)
		},
		// A second collector condemns, deletes and ends while the first one is about to delete.
		"two_collectors": func(r *race) {
			first := holdAt("s3 DELETE blobs", 1)
			collected := r.collect(first)
			<-first.reached
			r.must(<-r.collect(nil))
			r.put()
			waits := holdAt("Query GONE", 3)
			committed := r.commit(r.Context(), r.process(waits))
			<-waits.reached
			close(first.release)
			r.must(<-collected)
			close(waits.release)
			r.want(errGone, <-committed)
		},
		// The writer has less time than the collector takes.
		"no_time": func(r *race) {
			collector := holdAt("s3 DELETE blobs", 1)
			collected := r.collect(collector)
			<-collector.reached
			ctx, cancel := context.WithCancel(r.Context())
			transport := newSites()
			queries := 0
			transport.Arm(fault.Fault{Site: "Query GONE", Action: func(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
				if queries++; queries == 3 {
					cancel()
				}
				return send()
			}})
			err := r.process(transport).store(r.store.ID).awaitCollectors(ctx, map[versionlog.Digest]bool{cas.Sum([]byte(disputed)): true})
			if errkind.Of(err) != errkind.Unavailable {
				r.Errorf("without time: %v", err)
			}
			close(collector.release)
			r.must(<-collected)
		},
		// The collector wakes when its row means nothing any more, and others have removed it.
		"wakes_late": func(r *race) {
			collector := holdAt("Query LOG", 1)
			collected := r.collect(collector)
			<-collector.reached
			r.clock.move(goneFor + time.Second)
			committed := <-r.commit(r.Context(), r.process(nil))
			r.must(r.process(nil).store(r.store.ID).removeVoid(r.Context()))
			// It might have read the same before the commit.
			collector.Arm(fault.Fault{Site: "Query LOG", Action: func(req *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
				return send()
			}})
			close(collector.release)
			if err := <-collected; err != nil && !errors.Is(err, errTooSlow) {
				r.Errorf("the collector ends with %v", err)
			}
			r.want(nil, committed)
		},
		"deletes_late": func(r *race) {
			first := holdAt("s3 DELETE blobs", 1)
			l := r.process(first)
			s := l.store(r.store.ID)
			c, err := s.condemn(r.Context(), []versionlog.Digest{cas.Sum([]byte(disputed))})
			r.must(err)
			r.clock.move(goneFor + time.Second)
			committed := <-r.commit(r.Context(), r.process(nil))
			close(first.release)
			if err := c.remove(r.Context()); !errors.Is(err, errTooSlow) {
				r.Errorf("it deletes late: %v", err)
			}
			r.want(nil, committed)
		},
		// The clock of the writer is wrong.
		"clock_ahead": func(r *race) {
			collector := holdAt("s3 DELETE blobs", 1)
			collected := r.collect(collector)
			<-collector.reached
			ctx, cancel := context.WithCancel(r.Context())
			transport := newSites()
			queries := 0
			transport.Arm(fault.Fault{Site: "Query GONE", Action: func(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
				if queries++; queries == 3 {
					cancel()
				}
				return send()
			}})
			l := r.open(r.T, transport, &Options{Now: func() time.Time { return time.Now().Add(2 * goneFor) }})
			if err := l.store(r.store.ID).awaitCollectors(ctx, map[versionlog.Digest]bool{cas.Sum([]byte(disputed)): true}); !errors.Is(err, errBeingRemoved) {
				r.Errorf("it does not wait: %v", err)
			}
			close(collector.release)
			r.must(<-collected)
		},
		// A request is lost on its way, and arrives when the collector has ended.
		"arrives_late": func(r *race) {
			transport := newSites()
			var late atomic.Pointer[http.Request]
			transport.Arm(fault.Fault{Action: func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
				if strings.HasPrefix(callSite(req, body), "s3 DELETE blobs") && late.CompareAndSwap(nil, req.Clone(context.Background())) {
					return nil, io.ErrUnexpectedEOF
				}
				return send()
			}})
			if err := <-r.collect(transport); err == nil {
				r.Error("nobody knows whether it arrives, and the collector does not tell")
			}
			if rows, err := r.process(nil).store(r.store.ID).goneRows(r.Context()); err != nil || len(rows) != 1 {
				r.Errorf("no writer waits for it: %+v, %v", rows, err)
			}
			resp, err := http.DefaultTransport.RoundTrip(late.Load())
			r.must(err)
			r.must(resp.Body.Close())
			r.clock.move(goneFor)
			r.want(errGone, <-r.commit(r.Context(), r.process(nil)))
		},
		// META is gone, and a rebuild makes it again, while a writer that has looked for the
		// content, and one that has not, meet a collector that is about to delete it.
		"rebuilt": func(r *race) {
			writer := holdAt("TransactWriteItems LOG", 1)
			committed := r.commit(r.Context(), r.process(writer))
			<-writer.reached
			collector := holdAt("s3 DELETE blobs", 1)
			collected := r.collect(collector)
			<-collector.reached
			r.must((&table{db: r.clients(r.T, nil).DynamoDB, name: r.table}).write(r.Context(), []types.WriteRequest{deleteRequest(r.store.ID, metaSort)}))
			r.must(r.rebuild(r.T, r.store.ID))
			close(writer.release)
			waits := holdAt("Query GONE", 3)
			other := r.commit(r.Context(), r.process(waits))
			select {
			case <-waits.reached:
			case err := <-other:
				r.Fatalf("it does not wait: %v", err)
			case err := <-committed:
				r.Fatalf("nor does the other one: %v", err)
			}
			close(collector.release)
			r.must(<-collected)
			close(waits.release)
			r.want(errGone, <-committed)
			r.want(errGone, <-other)
		},
		// The collector cannot read what was committed, or gives up then, and has sent nothing.
		"gave_up": func(r *race) {
			ctx, cancel := context.WithCancel(r.Context())
			transport := newSites()
			l := r.process(transport)
			transport.Arm(fault.Fault{Site: "Query LOG", Action: func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
				cancel()
				return fault.FailBefore(req, body, send)
			}})
			_, err := l.store(r.store.ID).removeContents(ctx, []versionlog.Digest{cas.Sum([]byte(disputed))}, 0, func(int) {})
			if !errors.Is(err, context.Canceled) {
				r.Errorf("it ends with %v", err)
			}
			if rows, err := r.process(nil).store(r.store.ID).goneRows(r.Context()); err != nil || len(rows) > 0 {
				r.Errorf("it leaves %+v, %v", rows, err)
			}
			r.want(nil, <-r.commit(r.Context(), r.process(nil)))
		},
		// The reply to its transaction is lost.
		"lost_reply": func(r *race) {
			transport := newSites()
			transport.Arm(fault.Fault{Site: "TransactWriteItems GONE", Times: 1, Action: fault.FailAfter})
			r.must(<-r.collect(transport))
			rows, err := r.process(nil).store(r.store.ID).goneRows(r.Context())
			if err != nil || len(rows) != 0 || r.has() {
				r.Errorf("it leaves %+v, %v, and the content %v", rows, err, r.has())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newRace(t, b))
		})
	}
}

// waits has a writer that knows the fence commit while a collector is stopped.
func (r *race) waits(site string, nth int) {
	r.Helper()
	collector := holdAt(site, nth)
	collected := r.collect(collector)
	<-collector.reached
	waits := holdAt("Query GONE", 3)
	committed := r.commit(r.Context(), r.process(waits))
	select {
	case <-waits.reached:
	case err := <-committed:
		r.Fatalf("it does not wait: %v", err)
	}
	close(collector.release)
	r.must(<-collected)
	close(waits.release)
	r.want(errGone, <-committed)
}

// TestStoredAgain: a writer whose content was deleted stores it again, through the caches that
// have it, and its commit is made.
func TestStoredAgain(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	r := newRace(t, b)
	r.store = versionlog.Store{ID: versionlog.NewStoreID(), Slug: "large", Limits: versionlog.Limits{MaxMemoryBytes: 1000}}
	r.must(b.open(t, nil, nil).CreateStore(t.Context(), r.store))
	held := holdAt("TransactWriteItems LOG", 1)
	l := r.process(held)
	lib := memory.NewLibrary(l, func(storeID string) (cas.Store, error) {
		c, err := cache.New(r.blobs(t, nil)(storeID), &cache.Options{Dir: t.TempDir()})
		if err == nil {
			t.Cleanup(c.Close)
		}
		return c, err
	})
	st, err := lib.Open(t.Context(), r.store.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorSession, ID: "agent"}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := st.Write(t.Context(), "/disputed", []byte(disputed), versionlog.ExpectAny())
		done <- err
	}()
	select {
	case <-held.reached:
	case err := <-done:
		t.Fatal(err)
	}
	r.must(<-r.collect(nil))
	close(held.release)
	if err := <-done; err != nil || !r.has() {
		t.Errorf("it ends with %v, and the content is there: %v", err, r.has())
	}
}

// TestLookDenied: what a server calls denied may be missing, and is stored again.
func TestLookDenied(t *testing.T) {
	t.Parallel()
	r := newRace(t, newBackend(t, awstest.DynamoDB(t)))
	r.must(<-r.collect(nil))
	transport := newSites()
	transport.Arm(fault.Fault{Site: "s3 GET blobs", Action: fault.Answer(http.StatusForbidden, "AccessDenied")})
	r.want(errGone, <-r.commit(r.Context(), r.process(transport)))
}
