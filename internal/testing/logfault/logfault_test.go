package logfault_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"mneme/internal/testing/logfault"
	"mneme/versionlog"
	"mneme/versionlog/logtest"
	"mneme/versionlog/memlog"
)

// TestLog: a log that has been told nothing is as good as the one that it wraps.
func TestLog(t *testing.T) {
	logtest.Run(t, logtest.Config{
		Open: func(_ testing.TB, now func() time.Time) versionlog.Log {
			return logfault.New(memlog.New(&memlog.Options{Now: now}), &logfault.Options{PageSize: 1000})
		},
	})
}

const store = "memstore_1"

func newLog(t *testing.T) *logfault.Log {
	t.Helper()
	l := logfault.New(memlog.New(nil), &logfault.Options{Session: "mine", PageSize: 2})
	if err := l.CreateStore(t.Context(), versionlog.Store{ID: store, Name: "notes", Slug: "notes"}); err != nil {
		t.Fatal(err)
	}
	return l
}

func commit(ctx context.Context, l *logfault.Log, session, path string, fresh bool) error {
	_, err := l.Commit(ctx, store, &versionlog.Proposal{
		Key: session + path, Fresh: fresh, Session: session, Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: session},
		Changes: []versionlog.Change{{Action: versionlog.Put, Path: path, Digest: versionlog.Digest{1}, Size: 1, Expect: versionlog.ExpectAny()}},
	})
	return err
}

// paths returns those of the store's heads.
func paths(t *testing.T, l *logfault.Log) (paths []string) {
	t.Helper()
	for v, err := range l.Heads(t.Context(), store, "/", "") {
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, v.Path)
	}
	return paths
}

func TestFates(t *testing.T) {
	l := newLog(t)
	l.SetFates(logfault.Unmade, logfault.Unheard)
	for i, want := range []error{logfault.ErrDown, logfault.ErrDown, nil} {
		if err := commit(t.Context(), l, "other", fmt.Sprint("/other", i), true); err != nil {
			t.Errorf("a commit of another session: %v", err)
		}
		if err := commit(t.Context(), l, "mine", fmt.Sprint("/mine", i), true); !errors.Is(err, want) {
			t.Errorf("commit %d: %v, want %v", i, err, want)
		}
	}
	if got, want := paths(t, l), []string{"/mine1", "/mine2", "/other0", "/other1", "/other2"}; !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
	if err := commit(t.Context(), l, "mine", "/mine1", true); !errors.Is(err, versionlog.ErrInvalid) {
		t.Errorf("a key that is not fresh is called so: %v", err)
	}
	l.RequireFresh()
	if err := commit(t.Context(), l, "mine", "/new", false); !errors.Is(err, versionlog.ErrInvalid) {
		t.Errorf("a fresh key is not called so: %v", err)
	}
}

func TestHooks(t *testing.T) {
	l := newLog(t)
	var called []string
	l.Next(logfault.BeforeCommit, func() { called = append(called, fmt.Sprint("before ", paths(t, l))) })
	l.Next(logfault.AfterCommit, func() { called = append(called, fmt.Sprint("after ", paths(t, l))) })
	for _, path := range []string{"/a", "/b"} {
		if err := commit(t.Context(), l, "mine", path, true); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"before []", "after [/a]"}; !slices.Equal(called, want) {
		t.Errorf("hooks saw %q, want %q", called, want)
	}
}

func TestHold(t *testing.T) {
	l := newLog(t)
	h := l.Hold(logfault.BeforeCommit)
	done := make(chan error)
	go func() { done <- commit(t.Context(), l, "mine", "/a", true) }()
	<-h.Reached()
	if err := commit(t.Context(), l, "mine", "/b", true); err != nil {
		t.Errorf("a commit beside one that is held: %v", err)
	}
	if got := paths(t, l); !slices.Equal(got, []string{"/b"}) {
		t.Errorf("while a commit is held the log has %q", got)
	}
	h.Release()
	h.Release()
	if err := <-done; err != nil {
		t.Errorf("a commit that was held: %v", err)
	}

	h = l.Hold(logfault.AfterCommit)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- commit(ctx, l, "mine", "/c", true) }()
	<-h.Reached()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a commit that was given up: %v", err)
	}
	if got := paths(t, l); !slices.Equal(got, []string{"/a", "/b", "/c"}) {
		t.Errorf("the log has %q", got)
	}
}

func TestPages(t *testing.T) {
	l := newLog(t)
	for _, path := range []string{"/a", "/b", "/c"} {
		if err := commit(t.Context(), l, "mine", path, true); err != nil {
			t.Fatal(err)
		}
	}
	l.ResetReads()
	l.Next(logfault.AfterPage, func() {
		for _, path := range []string{"/a0", "/b0"} { // behind the first page, and within it
			if err := commit(t.Context(), l, "other", path, true); err != nil {
				t.Error(err)
			}
		}
	})
	if got, want := paths(t, l), []string{"/a", "/b", "/b0", "/c"}; !slices.Equal(got, want) || l.Reads() != 3 {
		t.Errorf("pages of %q in %d reads, want %q in 3", got, l.Reads(), want)
	}
	l.SetDown(true)
	for _, err := range l.Heads(t.Context(), store, "/", "") {
		if !errors.Is(err, logfault.ErrDown) {
			t.Errorf("heads of a log that is down: %v", err)
		}
	}
}
