package sqlite

import (
	"slices"
	"testing"
)

// TestUnsynced: transactions in Unsynced are not synced, however often it is called, and
// those behind it are.
func TestUnsynced(t *testing.T) {
	_, c := newDB(t)
	w := watch(c)
	for i := range 3 {
		w.calls = nil
		if err := c.Unsynced(func() error { return add(c, "a") }); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(w.calls, "sync") {
			t.Errorf("time %d: an unsynced transaction does %v", i, w.calls)
		}
		w.calls = nil
		if err := add(c, "b"); err != nil {
			t.Fatal(err)
		}
		if want := []string{"write", "sync"}; !slices.Equal(w.calls, want) {
			t.Errorf("time %d: a commit does %v, want %v", i, w.calls, want)
		}
	}
}

// TestSyncedAfterUnsynced: where Unsynced could not make a connection sync again, its next
// transaction does.
func TestSyncedAfterUnsynced(t *testing.T) {
	_, c := newDB(t)
	w := watch(c)
	if err := c.Unsynced(c.Begin); err == nil {
		t.Error("an open transaction is no error")
	}
	if err := c.Rollback(); err != nil {
		t.Fatal(err)
	}
	w.calls = nil
	if err := add(c, "a"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"write", "sync"}; !slices.Equal(w.calls, want) {
		t.Errorf("a commit does %v, want %v", w.calls, want)
	}
}
