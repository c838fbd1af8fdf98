package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestNothingLeftRunning: Close ends every goroutine of the log.
func TestNothingLeftRunning(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := l.Wait(ctx, s.ID, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if !running("changes).forward") {
		t.Error("Wait watches no file")
	}
	closeOnce(t, l)
	for _, what := range []string{"sqlitelog.(*", "fsnotify.(*"} {
		if running(what) {
			t.Errorf("goroutines of %s are left", what)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries { // the last connection takes these away
		if name := e.Name(); name != DatabaseName && name != changedName && name != tipsName {
			t.Errorf("%s is left, some connection is still open", name)
		}
	}
}

func running(what string) bool {
	stacks := make([]byte, 1<<20)
	return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), what)
}

// TestWaitLooksByItself: without events a Wait notices within the refresh.
func TestWaitLooksByItself(t *testing.T) {
	dir, s := newLog(t)
	reader := openTest(t, dir, &Options{ReadOnly: true, Refresh: 5 * time.Millisecond})
	reader.changes.watched = true // no watcher is started
	woken := make(chan error)
	go func() { woken <- reader.Wait(t.Context(), s.ID, 1) }()
	put(t, openTest(t, dir, nil), s.ID, "/a", "2")
	if err := <-woken; err != nil {
		t.Error(err)
	}
}

// waitDuring starts a Wait at some moment of a commit, which the one before took so
// long for, and returns how long this one takes.
func waitDuring(ctx context.Context, t *testing.T, writer, waiter *Log, storeID string, after uint64, took time.Duration) time.Duration {
	t.Helper()
	woken := make(chan error)
	delay := rand.N(took)
	go func() {
		for began := time.Now(); time.Since(began) < delay; { // sleeping is not that exact
		}
		woken <- waiter.Wait(ctx, storeID, after)
	}()
	began := time.Now()
	put(t, writer, storeID, "/a", fmt.Sprint("v", after))
	took = time.Since(began)
	if err := <-woken; err != nil {
		t.Fatalf("waiting for a commit above %d: %v", after, err)
	}
	return took
}

// TestNoWakeIsLost starts a Wait at every possible moment of a commit. There is no watcher to
// make up for changes that the log itself forgets to tell.
func TestNoWakeIsLost(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, &Options{Refresh: never})
	l.changes.watched = true
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	took := time.Millisecond
	for after := uint64(1); after < 500; after++ {
		took = waitDuring(ctx, t, l, l, s.ID, after, took)
	}
}

// TestTouchedForOthers: the file is written to only while another log watches it.
func TestTouchedForOthers(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	past := time.Now().Add(-time.Hour)
	touched := func() bool {
		t.Helper()
		if err := os.Chtimes(l.path(changedName), past, past); err != nil {
			t.Fatal(err)
		}
		put(t, l, s.ID, "/a", fmt.Sprint(time.Now()))
		info, err := os.Stat(l.path(changedName))
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime().After(past.Add(time.Minute))
	}
	watch := func(l *Log) {
		t.Helper()
		l.changes.next()
		if l.changes.watcher == nil {
			t.Fatal("it does not watch the file")
		}
	}
	watch(l)
	if touched() {
		t.Error("touched for itself")
	}
	for _, readOnly := range []bool{false, true} {
		other := openTest(t, dir, &Options{ReadOnly: readOnly})
		if touched() {
			t.Error("touched for one who does not wait")
		}
		watch(other)
		if !touched() {
			t.Error("not touched while another one watches")
		}
		closeOnce(t, other)
	}
	if touched() {
		t.Error("touched for those who are gone")
	}
}

// TestNoFirstWakeIsLost starts the first Wait of another log, with which that
// begins to watch, at every possible moment of a commit.
func TestNoFirstWakeIsLost(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, &Options{Refresh: never})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	took := time.Millisecond
	for after := uint64(1); after < 100; after++ {
		other := openTest(t, dir, &Options{ReadOnly: true, Refresh: never})
		took = waitDuring(ctx, t, l, other, s.ID, after, took)
		closeOnce(t, other)
	}
}
