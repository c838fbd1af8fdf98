package sqlitelog

import (
	"testing"
)

// TestTipIsKnown: as long as no other process commits, nobody asks the database
// for the tip, and nobody need be told of one's own commits.
func TestTipIsKnown(t *testing.T) {
	dir, s := newLog(t)
	l, other := openTest(t, dir, nil), openTest(t, dir, nil)
	known := func(want uint64) {
		t.Helper()
		if tip, ok := l.KnownTip(s.ID); !ok || tip.Seq != want {
			t.Errorf("known tip %+v, %v; want sequence %d", tip, ok, want)
		}
	}
	for range 2 { // before the first time, nothing of the database is open for reading
		if _, err := l.Tip(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
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
