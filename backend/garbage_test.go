package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mneme/cas"
	"mneme/forget"
	"mneme/internal/testing/awstest"
	"mneme/memory"
	"mneme/verify"
	"mneme/versionlog"
)

// TestCollectBesideWriters: while others write contents that are in files, also ones that were
// there before, and lose races, so that contents are left of no version, another process lets
// go of all versions but the heads, and removes what no version has, without any grace time.
// Whatever was acknowledged is there.
func TestCollectBesideWriters(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { collectBesideWriters(t, embedded{t.TempDir()}.location(), 12) })
	t.Run("aws", func(t *testing.T) {
		for _, v := range awstest.Env(t) {
			name, value, _ := strings.Cut(v, "=")
			t.Setenv(name, value)
		}
		at := awsTable{awstest.Name("bucket"), awstest.Name("table")}
		if _, err := at.setup(t.Context(), nil, func(SetupStep) {}); err != nil {
			t.Fatal(err)
		}
		collectBesideWriters(t, at.location(), 4)
	})
}

func collectBesideWriters(t *testing.T, at *Location, writes int) {
	const writers, large = 2, 140_000
	ctx := t.Context()
	user := &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}}
	open := func(direct bool) *Library {
		return dial(t, at.URL, &Options{Create: true, CacheDir: t.TempDir(), Direct: direct})
	}
	lib, collector := open(false), open(false)
	info, err := lib.CreateStore(ctx, "notes", &memory.StoreOptions{
		MaxMemoryBytes: 1 << 20, Policy: versionlog.Policy{Retention: versionlog.Retention{KeepVersions: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	store := func(lib *Library) *memory.Store {
		st, err := lib.Open(ctx, info.ID, user)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	st, collected := store(lib), store(collector)
	var done atomic.Bool
	var tasks, collecting sync.WaitGroup
	collecting.Go(func() {
		for n := 0; !done.Load(); n++ {
			_, err := collector.Collect(ctx, info.ID, &CollectOptions{})
			if err == nil && n%10 == 0 {
				err = letGo(ctx, collected)
			}
			if err != nil {
				t.Errorf("collect: %v", err)
				return
			}
		}
	})
	want := make([]map[string][]byte, writers)
	for w := range writers {
		want[w] = map[string][]byte{}
		tasks.Go(func() {
			for i := range writes {
				path, n := fmt.Sprintf("/%d/%d", w, i), i*writers+w
				if i%3 == 0 {
					path, n = fmt.Sprintf("/%d/again", w), i // a content of both writers
				}
				data := fmt.Appendf(make([]byte, 0, large), "%*d", large, n)
				var conflict *versionlog.ConflictError
				if _, err := st.Write(ctx, path, fmt.Appendf(nil, "%*d", large, -n), versionlog.ExpectVersion("memver_none")); !errors.As(err, &conflict) {
					t.Errorf("a write that has lost: %v", err)
				}
				_, err := st.Write(ctx, path, data, versionlog.ExpectAny())
				for errors.Is(err, cas.ErrNotFound) { // refused twice; nothing was acknowledged
					_, err = st.Write(ctx, path, data, versionlog.ExpectAny())
				}
				if err != nil {
					t.Error(err)
					return
				}
				want[w][path] = data
			}
		})
	}
	tasks.Wait()
	done.Store(true)
	collecting.Wait()
	st = store(open(true)) // past the caches
	for _, all := range want {
		for path, data := range all {
			if _, got, err := st.Read(ctx, path); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s has %d bytes, %v", path, len(got), err)
			}
		}
	}
	if _, err := verify.Store(ctx, st, nil, func(p verify.Problem) { t.Errorf("%+v", p) }); err != nil {
		t.Error(err)
	}
	if _, err := collector.Collect(ctx, info.ID, &CollectOptions{}); err != nil { // what the last writes that lost have left
		t.Error(err)
	}
	if g, err := collector.Collect(ctx, info.ID, &CollectOptions{Keep: true}); err != nil || g.Contents > 0 {
		t.Errorf("left: %+v, %v", g, err)
	}
}

func letGo(ctx context.Context, st *memory.Store) error {
	expired, err := forget.FindExpired(ctx, st, time.Now(), 0, func(int, int) {})
	if err == nil && len(expired.Versions) > 0 {
		_, err = forget.LetGo(ctx, st, expired, func(int, int) {})
	}
	return err
}
