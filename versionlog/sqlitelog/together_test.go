package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"mneme/versionlog"
)

// outcome is what a commit has returned.
type outcome struct {
	c   *versionlog.Commit
	err error
}

// together has proposals wait for the writers' turn, in their order, and then lets them have it. It
// returns what becomes of them, and in how many transactions.
func together(t *testing.T, l *Log, contexts map[int]context.Context, proposals ...stored) (all []outcome, transactions int) {
	t.Helper()
	know(t, l)
	l.writer.turn <- struct{}{}
	ends := make([]chan outcome, len(proposals))
	for i, p := range proposals {
		ends[i] = make(chan outcome, 1)
		ctx := t.Context()
		if contexts[i] != nil {
			ctx = contexts[i]
		}
		go func() {
			c, err := l.Commit(ctx, p.store, p.Proposal)
			ends[i] <- outcome{c, err}
		}()
		for len(waiting(l)) <= i {
			runtime.Gosched()
		}
	}
	before := l.stores.moment()
	<-l.writer.turn
	for _, end := range ends {
		all = append(all, <-end)
	}
	now := l.stores.moment()
	if !before.known || !now.known {
		t.Fatal("nothing is known of the database")
	}
	return all, now.stamp.Since(&before.stamp)
}

// stored is a proposal for a store.
type stored struct {
	store string
	*versionlog.Proposal
}

func waiting(l *Log) []*attempt {
	l.writer.queue.mu.Lock()
	defer l.writer.queue.mu.Unlock()
	return l.writer.queue.waiting
}

// TestTogether: proposals that wait share a transaction, and so a sync. Each is judged by itself, and
// after those before it.
func TestTogether(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	second := addStore(t, l, "second")
	know(t, l, s, second)
	ended, end := context.WithCancel(t.Context())
	created := withContent("/b", "b", versionlog.ExpectAbsent())
	sum := func(of string) versionlog.Expectation { return versionlog.ExpectVersion(of) }
	proposals := []struct {
		stored
		want error
		seq  uint64
	}{
		{stored{s.ID, created}, nil, 2},
		{stored{s.ID, withContent("/b", "another", versionlog.ExpectAbsent())}, versionlog.ErrConflict, 0},
		{stored{s.ID, created}, nil, 2}, // its reply was lost
		{stored{s.ID, withContent("/b/below", "x", versionlog.ExpectAny())}, versionlog.ErrOverlap, 0},
		{stored{second.ID, withContent("/b", "x", versionlog.ExpectAny())}, nil, 1},
		{stored{"memstore_none", withContent("/b", "x", versionlog.ExpectAny())}, versionlog.ErrNotFound, 0},
		{stored{s.ID, withContent("/c", "c", versionlog.ExpectAny())}, context.Canceled, 0},
		{stored{s.ID, withContent("/b", "b", versionlog.ExpectAny())}, nil, 2}, // which is the case
		{stored{s.ID, withContent("/a", "a", sum("ver_none"))}, versionlog.ErrConflict, 0},
		{stored{s.ID, withContent("/d", "d", versionlog.ExpectAny())}, nil, 3},
	}
	var all []stored
	for _, p := range proposals {
		all = append(all, p.stored)
	}
	l.clockHook(t, func(n int) {
		if n == 6 { // while that for /c is judged
			end()
		}
	})
	got, transactions := together(t, l, map[int]context.Context{6: ended}, all...)
	if transactions != 1 {
		t.Errorf("%d transactions", transactions)
	}
	for i, p := range proposals {
		if !errors.Is(got[i].err, p.want) || p.want == nil && (got[i].err != nil || got[i].c.Seq != p.seq) {
			t.Errorf("proposal %d: %+v, %v; want commit %d, %v", i, got[i].c, got[i].err, p.seq, p.want)
		}
	}
	for id, want := range map[string]uint64{s.ID: 3, second.ID: 1} {
		if tip, ok := l.KnownTip(id); !ok || tip.Seq != want {
			t.Errorf("the known tip is %+v, %v; want %d", tip, ok, want)
		}
	}
	if commits, err := l.Next(t.Context(), s.ID, 1); err != nil || len(commits) != 2 {
		t.Errorf("followers get %d commits, %v", len(commits), err)
	}
	wantNoBlob(t, l.Blobs(s.ID), "c")
	wantBlob(t, l.Blobs(s.ID), "d")
	wantClean(t, dir, s, 3)
	wantClean(t, dir, second, 1)
}

// wantClean wants a store to be sound, and to be remembered as far as that.
func wantClean(t *testing.T, dir string, s versionlog.Store, seq uint64) {
	t.Helper()
	l := openTest(t, dir, nil)
	tip, err := l.Tip(t.Context(), s.ID)
	if err != nil || tip.Seq != seq {
		t.Errorf("the tip is %+v, %v; want %d", tip, err, seq)
	}
	row, err := l.store(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if known := readTips(l.root)[row.num]; known.seq != seq || known.digest != tip.Digest {
		t.Errorf("remembered is %+v, want %d", known, seq)
	}
	if err := l.Check(t.Context(), s.ID, func(p Problem) { t.Errorf("found: %+v", p) }); err != nil {
		t.Error(err)
	}
}

// clockHook has a function called at each look at the clock, within the transaction.
func (l *Log) clockHook(t *testing.T, hook func(n int)) {
	n := 0
	l.timed = false
	l.now = func() time.Time {
		n++
		hook(n)
		return time.Now()
	}
	t.Cleanup(func() { l.now = time.Now })
}

// limit bounds the database to so many pages more than it has.
func limit(t *testing.T, l *Log, more int64) {
	t.Helper()
	pages, err := queryOne(t.Context(), l.writer, `PRAGMA page_count`, scanMicros)
	if err == nil {
		err = l.writer.conn.Script(fmt.Sprintf("PRAGMA max_page_count = %d", pages+more))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTogetherFails: where SQLite undoes a transaction for one of its proposals, the others get
// another one; where it cannot be committed, none of them is in the history, and none is refused
// because of a state that is not there.
func TestTogetherFails(t *testing.T) {
	proposals := func(s versionlog.Store) (all []stored) {
		for i := range 5 {
			content := fmt.Sprint(i)
			if i == 2 {
				content = strings.Repeat("long", 10_000)
			}
			all = append(all, stored{s.ID, withContent(fmt.Sprint("/n/", i), content, versionlog.ExpectAbsent())})
		}
		return all
	}
	t.Run("one", func(t *testing.T) {
		dir, s := newLog(t)
		l := openTest(t, dir, nil)
		know(t, l, s)
		limit(t, l, 8) // the long one has ten
		got, _ := together(t, l, nil, proposals(s)...)
		for i, o := range got {
			if i == 2 != errors.Is(o.err, syscall.ENOSPC) || i != 2 && o.err != nil {
				t.Errorf("proposal %d: %v", i, o.err)
			}
		}
		wantClean(t, dir, s, 5)
	})
	t.Run("all", func(t *testing.T) {
		dir, s := newLog(t)
		l := openTest(t, dir, nil)
		know(t, l, s)
		err := l.writer.conn.Script(`PRAGMA foreign_keys = ON; CREATE TEMP TABLE parents (id INTEGER PRIMARY KEY);
			CREATE TEMP TABLE children (id INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED)`)
		if err != nil {
			t.Fatal(err)
		}
		fails := true
		l.clockHook(t, func(n int) {
			if n == 3 && fails {
				if err := l.writer.run(`INSERT INTO children VALUES (1)`); err != nil {
					t.Error(err)
				}
			}
		})
		all := proposals(s)
		got, _ := together(t, l, nil, append(all, stored{s.ID, withContent("/n/0", "another", versionlog.ExpectAbsent())})...)
		for i, o := range got {
			if !isConstraint(o.err) {
				t.Errorf("proposal %d: %v", i, o.err)
			}
		}
		wantClean(t, dir, s, 1)
		fails = false
		got, transactions := together(t, l, nil, all...)
		for i, o := range got {
			if o.err != nil || o.c.Seq != uint64(i+2) {
				t.Errorf("again, proposal %d: %+v, %v", i, o.c, o.err)
			}
		}
		if transactions != 1 {
			t.Errorf("%d transactions", transactions)
		}
		wantClean(t, dir, s, 6)
	})
}

// TestTogetherEnds: no proposal is left without an answer that has been given up while it shared a
// transaction which was undone, or whose transaction a panic ends. That leaves no transaction, either.
func TestTogetherEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		during func(l *Log, second *attempt, end func())
		want   [2]error
	}{
		"given up": {func(l *Log, second *attempt, end func()) {
			end()
			for isGivenUp := false; !isGivenUp; runtime.Gosched() {
				l.writer.queue.mu.Lock()
				isGivenUp = second.givenUp != nil
				l.writer.queue.mu.Unlock()
			}
		}, [2]error{syscall.ENOSPC, context.Canceled}},
		"panic": {func(*Log, *attempt, func()) { panic(t.Name()) }, [2]error{errPanic, errPanic}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, s := newLog(t)
			l := openTest(t, dir, nil)
			limit(t, l, 8)
			ctx, end := context.WithCancel(t.Context())
			l.writer.turn <- struct{}{}
			var got [2]chan error
			for i, content := range []string{strings.Repeat("long", 10_000), "short"} {
				got[i] = make(chan error, 1)
				of := []context.Context{t.Context(), ctx}[i]
				go func() {
					_, err := l.Commit(of, s.ID, withContent(fmt.Sprint("/n/", i), content, versionlog.ExpectAbsent()))
					got[i] <- err
				}()
				for len(waiting(l)) <= i {
					runtime.Gosched()
				}
			}
			taken := l.writer.queue.take()
			l.clockHook(t, func(n int) {
				if n == 1 {
					tc.during(l, taken[1], end)
				}
			})
			if err := l.writer.conn.Begin(); err != nil {
				t.Fatal(err)
			}
			func() {
				defer func() { _ = recover() }()
				l.decide(taken)
			}()
			for i, want := range tc.want {
				if err := <-got[i]; !errors.Is(err, want) {
					t.Errorf("proposal %d: %v, want %v", i, err, want)
				}
			}
			<-l.writer.turn
			if c := put(t, l, s.ID, "/a", "2"); c.Seq != 2 {
				t.Errorf("the next commit is %d", c.Seq)
			}
		})
	}
}

// TestTogetherWaits: a proposal whose context ends while it waits is not made, wherever in the queue
// it is; one that takes long, or is an event, shares no transaction.
func TestTogetherWaits(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	know(t, l, s)
	many := &versionlog.Proposal{Key: versionlog.NewKey()}
	for i := range mostTogether {
		many.Changes = append(many.Changes, putProposal(fmt.Sprint("/many/", i), "1").Changes...)
	}
	text := "new"
	event := &versionlog.Proposal{Key: versionlog.NewKey(), Event: versionlog.StoreUpdated(versionlog.StoreUpdate{Description: &text})}
	one := func(i int) stored { return stored{s.ID, withContent(fmt.Sprint("/", i), "1", versionlog.ExpectAny())} }
	got, transactions := together(t, l, nil, one(1), stored{s.ID, many}, one(2), one(3), stored{s.ID, event}, one(4))
	for i, o := range got {
		if o.err != nil || o.c.Seq != uint64(i+2) {
			t.Errorf("proposal %d: %+v, %v", i, o.c, o.err)
		}
	}
	if transactions != 5 {
		t.Errorf("%d transactions, want 5", transactions)
	}

	ended, end := context.WithCancel(t.Context())
	l.writer.turn <- struct{}{}
	lost := make(chan error, 3)
	for i := range 3 {
		go func() {
			_, err := l.Commit(ended, s.ID, one(10+i).Proposal)
			lost <- err
		}()
	}
	for len(waiting(l)) < 3 {
		runtime.Gosched()
	}
	end()
	for range 3 {
		if err := <-lost; !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
	}
	<-l.writer.turn
	if left := waiting(l); len(left) > 0 {
		t.Errorf("%d are left in the queue", len(left))
	}
	wantClean(t, dir, s, 7)
}
