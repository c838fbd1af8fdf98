package dynamolog

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"mneme/cas"
	"mneme/internal/testing/awstest"
	"mneme/versionlog"

	"github.com/google/go-cmp/cmp"
)

// TestPurgeOnlyWhatIsNamed: a process that can write rows cannot make one with other
// credentials delete from the bucket.
func TestPurgeOnlyWhatIsNamed(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	attacker := e.open(t, nil, nil)
	if _, err := attacker.Commit(t.Context(), e.store.ID, e.proposal()); err != nil {
		t.Fatal(err)
	}
	before := e.find(t)
	admin := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, nil))})
	if _, err := e.blobs(t, nil)(e.store.ID).Put(t.Context(), []byte("own")); err != nil {
		t.Fatal(err)
	}
	own := write(t, admin, e.store.ID, "/own", "own").Versions[0]
	if _, err := admin.Commit(t.Context(), e.store.ID, proposal(versionlog.Change{Action: versionlog.Remove, Path: "/own", Expect: versionlog.ExpectAny()})); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Commit(t.Context(), e.store.ID, redactionOf(own.ID)); err != nil {
		t.Fatal(err)
	}
	places, err := admin.Purge(t.Context(), e.store.ID, []string{own.ID})
	if err != nil {
		t.Fatal(err)
	}
	if last := places[len(places)-1]; !strings.Contains(last.Why, e.ids[0]) {
		t.Errorf("the receipt is %+v", places)
	}
	if has, err := e.blobs(t, nil)(e.store.ID).Has(t.Context(), own.Digest); err != nil || has {
		t.Errorf("its own content is there: %v, %v", has, err)
	}
	after := e.find(t)
	keep := func(places []string) (kept []string) { // rows are as they are
		for _, p := range places {
			if strings.HasPrefix(p, "object") && !strings.Contains(p, "/snap/") {
				kept = append(kept, p)
			}
		}
		return kept
	}
	if diff := cmp.Diff(keep(before), keep(after)); diff != "" {
		t.Errorf("what it did not name, before -, after +:\n%s", diff)
	}
	if found := e.check(t, e.store.ID); len(found) != 1 || !strings.HasPrefix(found[0], "record 9 erases") {
		t.Errorf("Check reports %q", found)
	}
}

// TestPurgeForgedEvent: an event whose transaction was written by hand, and names a version
// that is current, costs that nothing, whether or not a person names the version.
func TestPurgeForgedEvent(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	l := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, nil))})
	head, err := l.Head(t.Context(), e.store.ID, "/last")
	if err != nil {
		t.Fatal(err)
	}
	all := append([]string{head.ID}, e.ids...)
	e.forge(t, l, redactionOf(all...))
	if c, err := l.Commit(t.Context(), e.store.ID, e.proposal()); err != nil || c.Changes() {
		t.Fatalf("what the event has erased, again: %+v, %v", c, err)
	}
	if places, err := l.Purge(t.Context(), e.store.ID, all); !errors.Is(err, ErrIndex) || len(places) > 0 {
		t.Errorf("named, it ends with %+v, %v", places, err)
	}
	places, err := l.Purge(t.Context(), e.store.ID, e.ids)
	if last := places[len(places)-1]; err != nil || !strings.Contains(last.Why, head.ID) {
		t.Errorf("not named, it ends with %+v, %v", places, err)
	}
	if has, err := e.blobs(t, nil)(e.store.ID).Has(t.Context(), head.Digest); err != nil || !has {
		t.Errorf("its content is there: %v, %v", has, err)
	}
	if record, err := l.records.get(t.Context(), recordKey(e.store.ID, span{head.Seq, head.Seq})); err != nil || !strings.Contains(string(record), head.Digest.String()) {
		t.Errorf("its record is %s, %v", record, err)
	}
	for _, place := range e.find(t) {
		t.Errorf("of the others, %s", place)
	}
}

// forge commits a redaction as a process would that looks at nothing, and ends before its rows are erased.
func (e *erasure) forge(t *testing.T, l *Log, p *versionlog.Proposal) {
	t.Helper()
	s := l.store(e.store.ID)
	err := s.load(t.Context())
	if err == nil {
		err = s.fetch(t.Context(), p)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := versionlog.Build(noHeads{s.view}, s.view.meta.Store, s.view.meta.tip, p, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b := newBatch(s.view)
	if err := b.append(&request{proposal: p}, c); err != nil {
		t.Fatal(err)
	}
	b.seal(l.table.name)
	if err := l.transact(t.Context(), b.items...); err != nil {
		t.Fatal(err)
	}
}

// noHeads is a view to which no version is a head.
type noHeads struct{ *view }

func (noHeads) Newest(string) (*versionlog.Version, error) { return nil, nil }

// TestPurgeOtherHistory: where bucket and table are not one history, nothing is deleted.
func TestPurgeOtherHistory(t *testing.T) {
	t.Parallel()
	e := newErasure(t, newBackend(t, awstest.DynamoDB(t)))
	l := e.open(t, nil, &Options{Blobs: blobsOf(e.blobs(t, nil))})
	if _, err := l.Commit(t.Context(), e.store.ID, e.proposal()); err != nil {
		t.Fatal(err)
	}
	l.settled()
	another := addStore(t, l, "another")
	write(t, l, another.ID, "/x", "1")
	l.settled()
	one := span{2, 2}
	foreign, err := l.records.get(t.Context(), recordKey(another.ID, span{1, 1}))
	if err == nil {
		err = l.records.replace(t.Context(), recordKey(e.store.ID, one), foreign)
	}
	if err != nil {
		t.Fatal(err)
	}
	before := e.find(t)
	if places, err := l.Purge(t.Context(), e.store.ID, e.ids); !errors.Is(err, ErrIndex) || len(places) > 0 {
		t.Errorf("%+v, %v", places, err)
	}
	if diff := cmp.Diff(before, e.find(t)); diff != "" {
		t.Errorf("before -, after +:\n%s", diff)
	}
}

// TestChainIsSmall: the ids of unnamed versions are not kept, however long the history is;
// for named ones, it keeps which are current.
func TestChainIsSmall(t *testing.T) {
	h := newChain()
	ids := []string{"a", "b", "c", "d", "e"}
	for i, v := range []versionlog.Version{
		{MemoryID: "1", Op: versionlog.OpCreated}, {MemoryID: "2", Op: versionlog.OpCreated}, {MemoryID: "1", Op: versionlog.OpModified},
		{MemoryID: "3", Op: versionlog.OpCreated}, {MemoryID: "3", Op: versionlog.OpDeleted},
	} {
		v.ID, v.Digest = ids[i], cas.Sum([]byte(ids[i]))
		h.add(&versionlog.Commit{Seq: uint64(i) + 1, Versions: []versionlog.Version{v}}, map[string]bool{"a": true, "b": true, "d": true})
	}
	if want := map[string]string{"2": "b"}; !maps.Equal(h.current, want) || len(h.named) != 3 || len(h.needs) != 2 {
		t.Errorf("it keeps %v, %v, %v", h.current, h.named, h.needs)
	}
}
