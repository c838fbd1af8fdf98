package dynamolog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"mneme/cas"
	"mneme/forget"
	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/memory"
	"mneme/versionlog"

	"github.com/google/go-cmp/cmp"
)

// collection are contents of no version beside those of an erasure.
type collection struct {
	*erasure
	*testing.T
}

func newCollection(t *testing.T) *collection {
	return &collection{newErasureIn(t, newBackend(t, awstest.DynamoDB(t))), t}
}

// orphan puts a content that no version has, and a page that no snapshot has.
func (c *collection) orphan(text string) {
	c.Helper()
	if _, err := c.blobs(c.T, nil)(c.store.ID).Put(c.Context(), []byte(text)); err != nil {
		c.Fatal(err)
	}
	to := shared{records{c.clients(c.T, nil).S3, c.bucket}, c.store.ID}.at(1)
	if err := to.Put(c.Context(), "pages/"+cas.Sum([]byte(text)).String(), []byte(text)); err != nil {
		c.Fatal(err)
	}
}

// pages returns the names of the pages of snapshots.
func (c *collection) pages() (names []string) {
	c.Helper()
	b := shared{records{c.clients(c.T, nil).S3, c.bucket}, c.store.ID}
	for name, err := range b.list(c.Context(), b.prefix()+"pages/") {
		if err != nil {
			c.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func (c *collection) process(transport http.RoundTripper, readOnly bool) *Log {
	return c.open(c.T, transport, &Options{ReadOnly: readOnly, Blobs: blobsOf(c.blobs(c.T, transport))})
}

// collects runs Collect, and wants so many contents to be found, and as many pages.
func (c *collection) collects(l *Log, opts CollectOptions, want int) {
	c.Helper()
	opts.Progress = func(int, int) {}
	if found, err := l.Collect(c.Context(), c.store.ID, &opts); err != nil || found.Contents != want || found.Pages != want {
		c.Errorf("%+v finds %+v, %v; want %d", opts, found, err, want)
	}
}

func (c *collection) has(text string) bool {
	c.Helper()
	has, err := c.blobs(c.T, nil)(c.store.ID).Has(c.Context(), cas.Sum([]byte(text)))
	if err != nil {
		c.Fatal(err)
	}
	return has
}

// aged is a transport through which some content, and a page of those bytes, was put long ago.
func aged(text string) *fault.Transport {
	transport := newSites()
	entry := regexp.MustCompile(`(<Key>[^<]*` + cas.Sum([]byte(text)).String() + `</Key>(?s:.*?)<LastModified>|<LastModified>)[^<]*(</LastModified>)`)
	transport.Arm(fault.Fault{Action: func(req *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
		resp, err := send()
		if err != nil || !strings.Contains(req.URL.RawQuery, "list-type=2") || !strings.Contains(req.URL.RawQuery, "blobs") && !strings.Contains(req.URL.RawQuery, "pages") {
			return resp, err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		body = regexp.MustCompile(`(?s)<Contents>.*?</Contents>`).ReplaceAllFunc(body, func(one []byte) []byte {
			if !bytes.Contains(one, []byte(cas.Sum([]byte(text)).String())) {
				return one
			}
			return entry.ReplaceAll(one, []byte("${1}2020-01-01T00:00:00Z${2}"))
		})
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return resp, err
	}})
	return transport
}

// TestCollect: contents and pages that no version and no snapshot has are deleted, once they are
// old by the clock of the bucket; a dry run, by a process that only reads, finds the same and
// changes nothing. Contents of versions stay, also those that only the bucket's records still
// name: after a redaction that is not purged, or a forged row.
func TestCollect(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	pages := c.pages()
	c.orphan("old")
	c.orphan("young")
	redactor := c.process(nil, false)
	if _, err := redactor.Commit(t.Context(), c.store.ID, c.proposal()); err != nil { // and the bucket is not purged
		t.Fatal(err)
	}
	if has := c.has("in a path"); !has {
		t.Fatal("what is not purged is gone")
	}
	usage, err := redactor.Tip(t.Context(), c.store.ID)
	if err != nil {
		t.Fatal(err)
	}
	s := redactor.store(c.store.ID)
	void, err := s.condemn(t.Context(), []versionlog.Digest{cas.Sum(nil)})
	if err != nil {
		t.Fatal(err)
	}
	void.until = time.Now().Add(-time.Minute)
	if err := redactor.transact(t.Context(), put(c.table, void.item())); err != nil {
		t.Fatal(err)
	}
	old := aged("old")
	c.collects(c.process(old, true), CollectOptions{Grace: time.Hour, Keep: true}, 1)
	c.collects(c.process(nil, true), CollectOptions{Keep: true}, 2)
	if rows, err := s.goneRows(t.Context()); err != nil || len(rows) != 1 || !c.has("old") {
		t.Errorf("a dry run has changed something: %+v, %v", rows, err)
	}
	collector := c.process(old, false)
	c.collects(collector, CollectOptions{Grace: time.Hour}, 1)
	if c.has("old") || !c.has("young") {
		t.Error("not the old one has gone")
	}
	c.collects(collector, CollectOptions{}, 1)
	c.collects(collector, CollectOptions{}, 0)
	if rows, err := s.goneRows(t.Context()); err != nil || len(rows) > 0 {
		t.Errorf("it leaves %+v, %v", rows, err)
	}
	if diff := cmp.Diff(pages, c.pages()); diff != "" || len(pages) == 0 {
		t.Errorf("pages of snapshots: want -, got +:\n%s", diff)
	}
	if has := c.has("in a path"); !has {
		t.Error("what a redaction is to purge is gone")
	}
	if tip, err := collector.Tip(t.Context(), c.store.ID); err != nil || tip.Totals != usage.Totals {
		t.Errorf("the usage was %+v, and is %+v, %v", usage.Totals, tip.Totals, err)
	}
	if _, err := collector.Purge(t.Context(), c.store.ID, c.ids); err != nil {
		t.Fatal(err)
	}
	c.verify(t)
}

// TestCollectRefuses: nothing goes of a store without commits, as beside an import on another
// machine, nor where bucket and table are not one history; a key that may not delete is told of.
func TestCollectRefuses(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	c.orphan("orphan")
	refused := func(l *Log, storeID, why string, kinds ...error) {
		t.Helper()
		found, err := l.Collect(t.Context(), storeID, &CollectOptions{Progress: func(int, int) {}})
		if err == nil || found != (Orphans{}) || !strings.Contains(err.Error(), why) {
			t.Errorf("it ends with %+v, %v; want %q", found, err, why)
		}
		for _, kind := range kinds {
			if !errors.Is(err, kind) {
				t.Errorf("%v is not %v", err, kind)
			}
		}
	}
	imported := addStore(t, c.process(nil, false), awstest.Name("store"))
	if _, err := c.blobs(t, nil)(imported.ID).Put(t.Context(), []byte("to be committed")); err != nil {
		t.Fatal(err)
	}
	if found, err := c.process(nil, false).Collect(t.Context(), imported.ID, &CollectOptions{Progress: func(int, int) {}}); err != nil || found != (Orphans{}) {
		t.Errorf("of a store without commits it removes %+v, %v", found, err)
	}
	refused(c.process(nil, true), c.store.ID, "read-only", versionlog.ErrReadOnly)
	for _, site := range []string{"TransactWriteItems GONE", "s3 DELETE blobs"} {
		transport := newSites()
		answer := fault.Answer(http.StatusForbidden, "AccessDenied")
		if strings.HasPrefix(site, "Transact") {
			answer = fault.Answer(http.StatusBadRequest, "AccessDeniedException")
		}
		transport.Arm(fault.Fault{Site: site, Action: answer})
		refused(c.process(transport, false), c.store.ID, "policies admin and redact", fs.ErrPermission)
	}
	records := c.process(nil, false).records
	last := recordKey(c.store.ID, span{1, 1})
	other, err := records.get(t.Context(), recordKey(c.store.ID, span{2, 2}))
	if err == nil {
		err = records.replace(t.Context(), last, other)
	}
	if err != nil {
		t.Fatal(err)
	}
	refused(c.process(nil, false), c.store.ID, "", ErrIndex)
	if !c.has("orphan") {
		t.Error("it has removed something")
	}
}

// TestCollectBetweenPutAndCommit: a writer whose content is old, and was found again, loses
// nothing, wherever the collector comes between.
func TestCollectBetweenPutAndCommit(t *testing.T) {
	t.Parallel()
	r := newRace(t, newBackend(t, awstest.DynamoDB(t)))
	collect := func(transport http.RoundTripper) error {
		_, err := r.process(transport).Collect(t.Context(), r.store.ID, &CollectOptions{Progress: func(int, int) {}})
		return err
	}
	collector := holdAt("TransactWriteItems GONE", 1)
	done := make(chan error, 1)
	go func() { done <- collect(collector) }()
	<-collector.reached
	committed := <-r.commit(context.WithoutCancel(t.Context()), r.process(nil))
	close(collector.release)
	r.must(<-done)
	r.want(nil, committed)
}

// TestRetention: what a rule lets go of goes from table and bucket, head and all else stay, and a
// run that may not delete from the bucket is finished by the next one that may.
func TestRetention(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	denied := newSites()
	library := func(transport http.RoundTripper) (*Log, *memory.Store) {
		l := c.process(transport, false)
		lib := memory.NewLibrary(l, func(storeID string) (cas.Store, error) { return c.blobs(t, transport)(storeID), nil })
		one := int64(1)
		if err := happen(t.Context(), l, c.store.ID, versionlog.StoreUpdated(versionlog.StoreUpdate{KeepVersions: &one})); err != nil {
			t.Fatal(err)
		}
		st, err := lib.Open(t.Context(), c.store.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "ada"}})
		if err != nil {
			t.Fatal(err)
		}
		return l, st
	}
	letGo := func(st *memory.Store, want, begun int) (left int) {
		t.Helper()
		found, err := forget.FindExpired(t.Context(), st, time.Now().Add(time.Hour), 0, func(int, int) {})
		if err != nil || len(found.Versions) != want || len(found.Begun) != begun {
			t.Fatalf("it finds %+v, %v", found, err)
		}
		done, err := forget.LetGo(t.Context(), st, found, func(int, int) {})
		if err != nil || len(done.Versions) != want {
			t.Fatalf("it erases %+v, %v", done, err)
		}
		for _, p := range done.Places {
			if p.Left != "" {
				left++
			}
		}
		return left
	}
	_, st := library(denied)
	denied.Arm(fault.Fault{Site: "s3 DELETE blobs", Action: fault.Answer(http.StatusForbidden, "AccessDenied")})
	if left := letGo(st, 4, 0); left == 0 {
		t.Error("nothing tells that contents are left")
	}
	l, st := library(nil)
	if left := letGo(st, 0, 4); left != 0 {
		t.Error("something is left")
	}
	if left := letGo(st, 0, 0); left != 0 {
		t.Error("something is left again")
	}
	l.settled()
	if found := c.check(t, c.store.ID); found != nil {
		t.Errorf("Check reports %q", found)
	}
	var usage versionlog.Usage
	for _, commit := range c.commits(t) {
		of := versionlog.UsageOf(commit.Versions)
		usage.Bytes, usage.Memories = usage.Bytes+of.Bytes, usage.Memories+of.Memories
	}
	if tip, err := l.Tip(t.Context(), c.store.ID); err != nil || tip.Totals.Bytes != usage.Bytes || tip.Totals.Memories != usage.Memories || usage.Memories != 3 {
		t.Errorf("the usage is %+v, want %+v, %v", tip.Totals, usage, err)
	}
	c.collects(l, CollectOptions{}, 0)
	if c.has(marker+" in a content") || !c.has("as it is now") || !c.has("of all") {
		t.Error("not the right contents have gone")
	}
	for _, place := range c.find(t) {
		t.Errorf("left: %s", place)
	}
}
