package sqlitelog

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"mneme/cas"
	"mneme/versionlog"
	"mneme/versionlog/logtest"
)

// never is a refresh interval that no test lives to see: what wakes a Wait is
// an event.
const never = time.Hour

func TestLog(t *testing.T) {
	open := func(t testing.TB, dir string, now func() time.Time) versionlog.Log {
		l, err := Open(t.Context(), dir, &Options{Now: now, Refresh: never})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeOnce(t, l) })
		return l
	}
	logtest.Run(t, logtest.Config{
		Open: func(t testing.TB, now func() time.Time) versionlog.Log { return open(t, t.TempDir(), now) },
		Reopen: func(t testing.TB, l versionlog.Log) versionlog.Log {
			old := l.(*Log)
			closeOnce(t, old)
			return open(t, old.root.Name(), old.now)
		},
		Share: func(t testing.TB, l versionlog.Log) versionlog.Log {
			return open(t, l.(*Log).root.Name(), l.(*Log).now)
		},
	})
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
	pageRows, pageRecords, pageNames = 7, 5, 4 // so that the suite meets the end of many a page
	os.Exit(m.Run())
}
