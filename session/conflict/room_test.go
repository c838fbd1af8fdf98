package conflict

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// bounded returns the conflicts kept in dir, of which a session may keep 5 and 1,000
// bytes, and the store 20 and 8,000.
func bounded(dir string) *Store {
	s := New(dir)
	s.room.ofSession, s.room.ofStore = amount{5, 1000}, amount{20, 8000}
	return s
}

// TestKeepNewest: a session that keeps more and more conflicts loses its own oldest, the
// settled ones first, and never another session's.
func TestKeepNewest(t *testing.T) {
	s := bounded(t.TempDir())
	newest := func(session string, size int64) string { // the number, what was removed, and whether it was refused
		t.Helper()
		about := About{Session: session, Path: "/f", Theirs: &Side{Size: size}}
		id, removed, err := s.KeepNewest(about, Texts{Yours: []byte("text")})
		if err != nil && !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		var ids []int
		for _, about := range removed {
			ids = append(ids, about.ID)
		}
		return fmt.Sprint(id, ids, err != nil)
	}
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("kept, removed, and refused: %s, want %s", got, want)
		}
	}
	want(newest("other", 0), "1 [] false")
	for id := 2; id <= 6; id++ {
		want(newest("mine", 0), fmt.Sprint(id, " [] false"))
	}
	if _, err := s.Keep(About{Session: "mine"}, Texts{}); !errors.Is(err, ErrFull) {
		t.Errorf("without removing, one more: %v", err)
	}
	if err := s.Settle(4, "for a test", time.Now()); err != nil {
		t.Fatal(err)
	}
	want(newest("mine", 0), "7 [4] false")
	want(newest("mine", 0), "8 [2] false")
	want(newest("large", 1000-100), "9 [] false")
	want(newest("large", 10), "10 [] false")
	want(newest("large", 200), "11 [9] false")
	want(newest("single", 1000+1), "12 [] false")
	for i := range 6 {
		want(newest(fmt.Sprint("session", i), 1000), fmt.Sprint(13+i, " [] false"))
	}
	want(newest("newest", 1000), "0 [] true")
	want(newest("large", 1000), "0 [] true") // though some of its own could go
	if _, err := s.About(1); err != nil {
		t.Errorf("another session's conflict: %v", err)
	}
	if temporary, _ := filepath.Glob(filepath.Join(s.Dir(), ".tmp-*")); temporary != nil {
		t.Errorf("what was refused has left %v", temporary)
	}
}

// TestKeepNewestAtOnce: callers at once, in several processes, keep no more than one
// session may, and what goes is older than all that stay.
func TestKeepNewestAtOnce(t *testing.T) {
	const stores, callers, each = 3, 4, 10
	dir := t.TempDir()
	var work sync.WaitGroup
	for range stores { // which know of each other no more than processes do
		s := bounded(dir)
		for range callers {
			work.Go(func() {
				for range each {
					if _, _, err := s.KeepNewest(About{Session: "mine"}, Texts{Yours: make([]byte, 190)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	work.Wait()
	ids, err := New(dir).IDs()
	want := make([]int, 5)
	for i := range want {
		want[i] = stores*callers*each - len(want) + i + 1
	}
	if err != nil || fmt.Sprint(ids) != fmt.Sprint(want) {
		t.Errorf("kept: %v, %v; want %v", ids, err, want)
	}
}

// TestKeepAtOnceIsRefused: callers that remove nothing keep no more than one session may.
func TestKeepAtOnceIsRefused(t *testing.T) {
	s := bounded(t.TempDir())
	var work sync.WaitGroup
	for range 20 {
		work.Go(func() {
			if _, err := s.Keep(About{Session: "mine"}, Texts{}); err != nil && !errors.Is(err, ErrFull) {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if ids, err := s.IDs(); err != nil || len(ids) != 5 {
		t.Errorf("kept: %v, %v; want 5", ids, err)
	}
}

// TestRewriteMakesRoom: a text that grows makes room as a new one does, also for another
// process that has read how long it was.
func TestRewriteMakesRoom(t *testing.T) {
	dir := t.TempDir()
	s, other := bounded(dir), bounded(dir)
	for range 4 {
		if _, err := s.Keep(About{Session: "mine"}, Texts{Yours: make([]byte, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.HasRoom("mine", 1, 500); err != nil {
		t.Fatal(err)
	}
	if removed, err := s.Rewrite(2, make([]byte, 600), false); err != nil || removed != nil {
		t.Errorf("with room: removed %v, %v", removed, err)
	}
	if err := other.HasRoom("mine", 1, 500); !errors.Is(err, ErrFull) {
		t.Errorf("another process after the text has grown: %v", err)
	}
	removed, err := s.Rewrite(1, make([]byte, 700), false)
	if err != nil || len(removed) != 1 || removed[0].ID != 2 {
		t.Errorf("without room: removed %v, %v; want conflict 2", removed, err)
	}
	if text, err := s.Read(1, YoursFile); err != nil || !bytes.Equal(text, make([]byte, 700)) {
		t.Errorf("%d bytes are kept, %v", len(text), err)
	}
	if _, err := s.Rewrite(1, []byte(strings.Repeat("x", 8000)), false); err != nil { // a single one may be larger
		t.Error(err)
	}
	if ids, err := s.IDs(); err != nil || fmt.Sprint(ids) != "[1]" {
		t.Errorf("kept: %v, %v", ids, err)
	}
}

// TestKeepBesideDamage: a conflict whose description is damaged is one of the store's, and
// keeps no other from being kept.
func TestKeepBesideDamage(t *testing.T) {
	s := bounded(t.TempDir())
	for range 6 {
		if _, _, err := s.KeepNewest(About{Session: "mine"}, Texts{}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.Dir(), "1", AboutFile), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if ids, err := s.IDs(); err != nil || fmt.Sprint(ids) != "[1 2 3 4 5 6]" {
		t.Errorf("kept: %v, %v", ids, err)
	}
	s.room.ofStore.conflicts = 6
	if _, _, err := s.KeepNewest(About{Session: "other"}, Texts{}); !errors.Is(err, ErrFull) {
		t.Errorf("in a store that is full: %v", err)
	}
}
