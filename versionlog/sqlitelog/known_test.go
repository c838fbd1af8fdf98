package sqlitelog

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"mneme/versionlog"
)

// TestTipIsKnown: as long as no other process commits, no call asks the database for the tip, and
// no caller need be told of its own commits.
func TestTipIsKnown(t *testing.T) {
	dir, s := newLog(t)
	l, other := openTest(t, dir, nil), openTest(t, dir, nil)
	known := func(want uint64) {
		t.Helper()
		if tip, ok := l.KnownTip(s.ID); !ok || tip.Seq != want {
			t.Errorf("known tip %+v, %v; want sequence %d", tip, ok, want)
		}
	}
	know(t, l, s)
	known(1)
	put(t, l, s.ID, "/a", "2")
	put(t, l, s.ID, "/b", "3")
	known(3)
	put(t, other, s.ID, "/c", "4")
	if tip, ok := l.KnownTip(s.ID); ok {
		t.Errorf("tip %+v is known after another log has committed", tip)
	}
	if _, err := l.Tip(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	known(4)
	second := addStore(t, l, "second")
	if tip, ok := l.KnownTip(s.ID); ok {
		t.Errorf("tip %+v is known after a store was made", tip)
	}
	for _, id := range []string{s.ID, second.ID} {
		if _, err := l.Tip(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	put(t, l, second.ID, "/a", "1")
	known(4)
	if err := l.DeleteStore(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if _, ok := l.KnownTip(s.ID); ok {
		t.Error("the tip of a deleted store is known")
	}
}

// know makes l know the tips of stores.
func know(t *testing.T, l *Log, stores ...versionlog.Store) {
	t.Helper()
	for range 2 { // before the first time, nothing of the database is open for reading
		for _, s := range stores {
			if _, err := l.Tip(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range stores {
		if _, ok := l.KnownTip(s.ID); !ok {
			t.Fatalf("the tip of %s is not known", s.Slug)
		}
	}
}

// TestOthersTipsAreNotKnown: the knowledge of one store before another log's commit is not taken
// for current because of something that is learnt of another store.
func TestOthersTipsAreNotKnown(t *testing.T) {
	dir, s := newLog(t)
	l, other := openTest(t, dir, nil), openTest(t, dir, nil)
	second := addStore(t, l, "second")
	for what, learn := range map[string]func(){
		"asking for its tip": func() { know(t, l, s) },
		"a commit":           func() { put(t, l, s.ID, "/a", fmt.Sprint(rand.Int())) },
	} {
		know(t, l, s, second)
		put(t, other, second.ID, "/a", what)
		learn()
		if tip, ok := l.KnownTip(second.ID); ok {
			t.Errorf("%s: tip %+v of the other store is known", what, tip)
		}
	}
}

// TestAdvancePastOthers: a commit behind which another log's has come already is
// not the tip.
func TestAdvancePastOthers(t *testing.T) {
	dir, s := newLog(t)
	l, other := openTest(t, dir, nil), openTest(t, dir, nil)
	know(t, l, s)
	before := l.stores.moment()
	own := put(t, other, s.ID, "/a", "own") // as if l had made it
	put(t, other, s.ID, "/a", "theirs")
	l.stores.advance(&before, map[string]storeRow{s.ID: {Store: s, tip: versionlog.Tip{}.After(own)}})
	if tip, ok := l.KnownTip(s.ID); ok {
		t.Errorf("tip %+v is known", tip)
	}
}
