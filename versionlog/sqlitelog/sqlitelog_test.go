package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mneme/cas"
	"mneme/internal/sqlite"
	"mneme/versionlog"
	"mneme/versionlog/logtest"
)

// never is a refresh interval that no test lives to see: what wakes a Wait is
// an event.
const never = time.Hour

func TestLog(t *testing.T) {
	open := func(t testing.TB, dir string, now func() time.Time) versionlog.Log {
		return &packingLog{Log: openTest(t, dir, &Options{Now: now, Refresh: never}), t: t}
	}
	logtest.Run(t, logtest.Config{
		Open: func(t testing.TB, now func() time.Time) versionlog.Log { return open(t, t.TempDir(), now) },
		Reopen: func(t testing.TB, l versionlog.Log) versionlog.Log {
			old := l.(*packingLog).Log
			closeOnce(t, old)
			return open(t, old.root.Name(), old.now)
		},
		Share: func(t testing.TB, l versionlog.Log) versionlog.Log {
			old := l.(*packingLog).Log
			return open(t, old.root.Name(), old.now)
		},
	})
}

// packingLog packs after every fifth commit that it makes, so that the suite meets what is
// packed, what is not, and what others pack meanwhile.
type packingLog struct {
	*Log
	t       testing.TB
	commits atomic.Int64
	packing sync.Mutex // packing is for one goroutine
}

func (l *packingLog) Commit(ctx context.Context, storeID string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	c, err := l.Log.Commit(ctx, storeID, p)
	if err == nil && l.commits.Add(1)%5 == 0 && l.packing.TryLock() {
		packMore(l.t, l.Log)
		l.packing.Unlock()
	}
	return c, err
}

// packMore packs all that is left to pack, except contents that others are packing or writing.
func packMore(t testing.TB, l *Log) {
	t.Helper()
	for {
		worked, err := l.packer.step(context.Background(), 1)
		if err != nil && !errors.Is(err, errLocked) && !errors.Is(err, errMoved) {
			t.Error(err)
		}
		if !worked || err != nil {
			return
		}
	}
}

// withLongFrames is for tests that measure what is on disk.
func withLongFrames(t testing.TB) {
	short := frameRecords
	frameRecords = 64
	t.Cleanup(func() { frameRecords = short })
}

var closed sync.Map // the logs that closeOnce has closed

// closeOnce closes a log that Reopen may have closed before.
func closeOnce(t testing.TB, l *Log) {
	if _, before := closed.LoadOrStore(l, true); before {
		return
	}
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func openTest(t testing.TB, dir string, opts *Options) *Log {
	t.Helper()
	l, err := Open(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeOnce(t, l) })
	return l
}

func addStore(t testing.TB, l *Log, slug string) versionlog.Store {
	t.Helper()
	s := versionlog.Store{ID: versionlog.NewStoreID(), Slug: slug}
	if err := l.CreateStore(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s
}

func putProposal(path, content string) *versionlog.Proposal {
	return &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{{
		Action: versionlog.Put, Path: path, Digest: cas.Sum([]byte(content)), Size: int64(len(content)), Expect: versionlog.ExpectAny(),
	}}}
}

// happen commits an event.
func happen(ctx context.Context, l *Log, storeID string, e *versionlog.Event) error {
	_, err := l.Commit(ctx, storeID, &versionlog.Proposal{Key: versionlog.NewKey(), Event: e})
	return err
}

func put(t testing.TB, l *Log, storeID, path, content string) *versionlog.Commit {
	t.Helper()
	c, err := l.Commit(t.Context(), storeID, putProposal(path, content))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMain(m *testing.M) {
	packPace = calmPace // tests pack themselves
	if role := os.Getenv("MNEME_TEST_CHILD"); role != "" {
		if err := child(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	firstRows, pageRows, pageRecords, pageNames, frameRecords = 2, 7, 5, 4, 3 // so that the suite meets the end of many a page
	os.Exit(m.Run())
}

// TestBusyLogKeepsMorePages: a server answers from memory what a mount reads again.
func TestBusyLogKeepsMorePages(t *testing.T) {
	for busy, want := range map[bool]int{false: -512, true: -busyPages} {
		l := openTest(t, t.TempDir(), &Options{Busy: busy})
		pages, err := queryOne(t.Context(), l.db, `PRAGMA cache_size`, func(row *sqlite.Row) (int, error) { return row.ColumnInt(0), nil })
		if err != nil || pages != want {
			t.Errorf("busy %v: %d, %v", busy, pages, err)
		}
	}
}
