package snapshot

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"mneme/versionlog"
	"mneme/versionlog/logtest"
	"mneme/versionlog/memlog"

	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) {
	// Every state that the suite's state machine looks at is three snapshots.
	if err := flag.Set("rapid.checks", "12"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// snapshotLog is a log that answers for the past by snapshots.
type snapshotLog struct{ *memlog.Log }

// At makes a snapshot of a commit before seq, another that takes it on, and reads the
// latter.
func (l snapshotLog) At(ctx context.Context, storeID string, seq uint64) (versionlog.State, error) {
	o := newObjects()
	if _, err := l.Store(ctx, storeID); err != nil {
		return nil, err
	}
	err := Empty(storeID, "").fold(ctx, o, seq/3, l.Commits(ctx, storeID, 0), small)
	for _, next := range []uint64{seq / 2, seq} {
		var s *Snapshot
		if err == nil {
			s, err = Open(ctx, o)
		}
		if err != nil {
			return nil, err
		}
		commits := l.Commits(ctx, storeID, max(s.Tip.Seq, 1)-1)
		if next == seq {
			return s.At(seq, commits)
		}
		err = s.fold(ctx, o, next, commits, small)
	}
	return nil, err
}

// Capabilities are without redactions: a snapshot is not folded over versions that were
// erased, which do not tell what they have left.
func (l snapshotLog) Capabilities() versionlog.Capabilities {
	can := l.Log.Capabilities()
	can.Purge = nil
	return can
}

// TestState holds states of snapshots against what the suite of logs says of the past.
func TestState(t *testing.T) {
	logtest.Run(t, logtest.Config{Open: func(_ testing.TB, now func() time.Time) versionlog.Log {
		return snapshotLog{memlog.New(&memlog.Options{Now: now})}
	}})
}

// TestStateReadsLittle: a state reads the pages that it needs, and those only once.
func TestStateReadsLittle(t *testing.T) {
	const n = 5000
	o := newObjects()
	if err := Empty("memstore_1", "").Fold(t.Context(), o, n, yielding(chain(n, n))); err != nil {
		t.Fatal(err)
	}
	state := o.open(t).State()
	o.gets = 0
	for range 3 {
		if v, err := state.Head(t.Context(), "/mem_02500"); err != nil || v.Seq != 2501 {
			t.Errorf("the head is %+v, %v", v, err)
		}
	}
	if _, err := state.Head(t.Context(), "/mem_02500/x"); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("below a memory there is %v", err)
	}
	if o.gets != 1 {
		t.Errorf("%d pages were read for one path", o.gets)
	}
	for range cachedPages + 1 { // it forgets the oldest
		collect(t, state.Heads(t.Context(), "/", ""))
	}
	s := o.open(t)
	for i := range len(s.heads.Pages) {
		if _, err := s.State().Head(t.Context(), s.heads.Pages[i].First); err != nil {
			t.Error(err)
		}
	}
	for i := range cachedPages + 5 {
		s.cache.put(i, nil)
	}
	if _, ok := s.cache.get(4); ok || len(s.cache.pages) != cachedPages {
		t.Errorf("%d pages are kept, want the last %d", len(s.cache.pages), cachedPages)
	}
}

// TestWideState: children of a directory are found without reading what lies below its
// subdirectories.
func TestWideState(t *testing.T) {
	commits := chain(3000, 3000)
	for i, c := range commits {
		c.Versions[0].Path = fmt.Sprintf("/d%d/f%04d", i/1000, i)
	}
	o := newObjects()
	if err := Empty("memstore_1", "").fold(t.Context(), o, 3000, yielding(commits), small); err != nil {
		t.Fatal(err)
	}
	s := o.open(t)
	o.gets = 0
	if dirs := collect(t, s.State().Children(t.Context(), "/")); len(dirs) != 3 || o.gets > 8 || len(s.heads.Pages) < 100 {
		t.Errorf("%d of %d pages were read for %d directories", o.gets, len(s.heads.Pages), len(dirs))
	}
}

// atOnce is a source of which the reads of pages wait for each other.
type atOnce struct {
	*objects
	arrived chan struct{} // takes one of each read that waits
	free    chan struct{}
}

func (s atOnce) Get(ctx context.Context, name string, limit int) ([]byte, error) {
	if name != manifestName {
		s.arrived <- struct{}{}
		<-s.free
	}
	return s.objects.Get(ctx, name, limit)
}

// TestWalkReadsAhead: a caller that walks a state waits for a few rounds of reads, not for each
// page.
func TestWalkReadsAhead(t *testing.T) {
	o := newObjects()
	if err := Empty("memstore_1", "").fold(t.Context(), o, 600, yielding(chain(600, 600)), small); err != nil {
		t.Fatal(err)
	}
	source := atOnce{o, make(chan struct{}), make(chan struct{})}
	s, err := Open(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan int)
	go func() { done <- len(collect(t, s.State().Heads(t.Context(), "/", ""))) }()
	pages := len(s.heads.Pages)
	for walked, round := 0, 1; walked < pages; walked += round {
		if walked > 0 {
			round = min(walked, readAhead, pages-walked)
		}
		for range round { // all of them ask before one is answered
			<-source.arrived
		}
		for range round {
			source.free <- struct{}{}
		}
	}
	if n := <-done; n != 600 || pages < 2*cachedPages {
		t.Errorf("%d heads of %d pages", n, pages)
	}
}

// TestHeads: all heads come in their order, up to the first page that is damaged.
func TestHeads(t *testing.T) {
	o := folded(t, chain(300, 300), 300)
	s := o.open(t)
	if diff := cmp.Diff(collect(t, s.State().Heads(t.Context(), "/", "")), collect(t, s.Heads(t.Context()))); diff != "" {
		t.Errorf("one page after another -, ahead +:\n%s", diff)
	}
	delete(o.data, s.heads.Pages[2].name())
	n := 0
	var failed error
	for _, err := range s.Heads(t.Context()) {
		if failed = err; err == nil {
			n++
		}
	}
	if want := s.heads.Pages[0].Count + s.heads.Pages[1].Count; !errors.Is(failed, versionlog.ErrCorrupt) || n != want {
		t.Errorf("without the third page: %d heads and %v, want the %d of two pages", n, failed, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.Heads(ctx) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of the context: %v", err)
		}
	}
}

// stuck is a source all whose pages but the first are never there.
type stuck struct {
	*objects
	first string
}

func (s stuck) Get(ctx context.Context, name string, limit int) ([]byte, error) {
	if name != s.first {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.objects.Get(ctx, name, limit)
}

// TestHeadsStopEarly: a caller that wants no more does not wait for pages.
func TestHeadsStopEarly(t *testing.T) {
	o := folded(t, chain(300, 300), 300)
	s := o.open(t)
	s.source = stuck{o, s.heads.Pages[0].name()}
	for range s.Heads(t.Context()) {
		break
	}
	s.source = stuck{newObjects(), s.heads.Pages[0].name()}
	for _, err := range s.Heads(t.Context()) {
		if !errors.Is(err, versionlog.ErrCorrupt) {
			t.Errorf("without the first page: %v", err)
		}
	}
}

// TestAhead: what is read ahead has ended when the caller goes on.
func TestAhead(t *testing.T) {
	var running atomic.Int32
	goOn := make(chan struct{})
	for i := range ahead(99, func(i int) int {
		running.Add(1)
		defer running.Add(-1)
		if i > 0 {
			<-goOn
		}
		return i
	}) {
		if i != 0 {
			t.Errorf("it begins with %d", i)
		}
		close(goOn)
		break
	}
	if n := running.Load(); n > 0 {
		t.Errorf("%d are still running", n)
	}
}
