package memory_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
)

// TestOpenAt holds a store as it was to the one that it was, on every log.
func TestOpenAt(t *testing.T) {
	for _, name := range []string{"memlog", "sqlitelog"} {
		t.Run(name, func(t *testing.T) { testOpenAt(t, historyBackends[name](t)[0]) })
	}
}

func testOpenAt(t *testing.T, lib *memory.Library) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	must(err)
	st, err := lib.Open(t.Context(), info.ID, author)
	must(err)
	for _, change := range []memory.Change{
		{Action: versionlog.Put, Path: "/a", Content: []byte("one"), Expect: versionlog.ExpectAny()},
		{Action: versionlog.Put, Path: "/d/b", Content: []byte("b"), Expect: versionlog.ExpectAny()},
		{Action: versionlog.Rename, Path: "/a", To: "/c", Expect: versionlog.ExpectAny()},
		{Action: versionlog.Put, Path: "/c", Content: []byte("two"), Expect: versionlog.ExpectAny()},
		{Action: versionlog.Remove, Path: "/d/b", Expect: versionlog.ExpectAny()},
		{Action: versionlog.Put, Path: "/a", Content: []byte("new"), Expect: versionlog.ExpectAny()},
	} {
		before, err := st.Tip(t.Context())
		must(err)
		if _, err := st.Batch(t.Context(), []memory.Change{change}, nil); err != nil {
			if tip, tipErr := st.Tip(t.Context()); tipErr != nil || tip.Seq != before.Seq+1 { // else the reply was lost on purpose
				t.Fatal(err)
			}
		}
		// OpenAt must show the same as the store shows now.
		tip, err := st.Tip(t.Context())
		must(err)
		now := shown(t, st)
		t.Cleanup(func() {
			past, err := lib.OpenAt(context.Background(), info.ID, tip.Seq)
			must(err)
			if then := shown(t, past); !slices.Equal(then, now) {
				t.Errorf("after commit %d there was %q, and there is %q", tip.Seq, now, then)
			}
		})
	}
	second, err := lib.OpenAt(t.Context(), info.ID, 2)
	must(err)
	if seq, past := second.EndsAt(); seq != 2 || !past || !second.ReadOnly() {
		t.Errorf("it is as of %d, %v", seq, past)
	}
	if _, past := st.EndsAt(); past {
		t.Error("the store itself is of the past")
	}
	if _, err := second.Write(t.Context(), "/x", nil, versionlog.ExpectAny()); !errors.Is(err, memory.ErrReadOnly) {
		t.Errorf("a write is %v", err)
	}
	if _, err := second.At(t.Context(), 3); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("commit 3 is %v", err)
	}
	if seq, err := second.SeqAt(t.Context(), time.Now().Add(time.Hour)); err != nil || seq != 2 {
		t.Errorf("in an hour it is commit %d, %v", seq, err)
	}
	for _, path := range []string{"/c", "/x"} {
		if v, err := history.Resolve(t.Context(), second, path, "1"); !errors.Is(err, versionlog.ErrNotFound) {
			t.Errorf("%s was %v, %v", path, v, err)
		}
	}
	if _, err := lib.OpenAt(t.Context(), info.ID, 7); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("commit 7 is %v", err)
	}
	// A follower of it waits until its context ends.
	ctx, cancel := context.WithCancel(t.Context())
	tip, err := second.Tip(ctx)
	must(err)
	if err := second.Follow(ctx, versionlog.Tip{}, func(c *versionlog.Commit) error {
		if c.Seq == tip.Seq {
			cancel()
		}
		return nil
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("following it ends with %v", err)
	}
}

// shown is all that a store says of itself.
func shown(t *testing.T, st *memory.Store) (all []string) {
	t.Helper()
	ctx := context.Background()
	note := func(what string, v versionlog.Version, err error) {
		if err != nil && !errors.Is(err, versionlog.ErrNotFound) {
			t.Fatal(err)
		}
		all = append(all, what+" "+v.ID+" "+v.Path)
	}
	for v, err := range st.Tree(ctx, "/") {
		note("tree", v, err)
	}
	for _, dir := range []string{"/", "/d"} {
		for v, err := range st.Entries(ctx, dir) {
			note("entry", v, err)
		}
	}
	for _, path := range []string{"/a", "/c", "/d/b", "/x"} {
		v, err := st.Head(ctx, path)
		note("head", v, err)
		for v, err := range history.Versions(ctx, st, path) {
			note("history", v, err)
		}
	}
	for c, err := range st.CommitsBefore(ctx, 0, versionlog.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		note("before", c.Versions[0], nil)
	}
	for c, err := range st.Commits(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		note("commit", c.Versions[0], nil)
	}
	tip, err := st.Tip(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return append(all, tip.Digest.String())
}
