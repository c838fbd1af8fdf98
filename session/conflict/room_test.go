package conflict

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestMakeRoom: a session that keeps more and more conflicts loses its own oldest, the
// settled ones first, and never another session's.
func TestMakeRoom(t *testing.T) {
	s := New(t.TempDir())
	s.room.ofSession, s.room.ofStore = amount{5, 1000}, amount{20, 8000}
	keep := func(session string, size int64) int {
		t.Helper()
		id, err := s.Keep(About{Session: session, Path: "/f", Theirs: &Side{Size: size}}, Texts{Yours: []byte("text")})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	room := func(session string, size int64) string {
		t.Helper()
		removed, err := s.MakeRoom(About{Session: session, Theirs: &Side{Size: size}})
		var ids []int
		for _, about := range removed {
			ids = append(ids, about.ID)
		}
		if err != nil && !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		return fmt.Sprint(ids, err != nil)
	}
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("removed, and refused: %s, want %s", got, want)
		}
	}
	keep("other", 0)
	for range 5 - 1 {
		keep("mine", 0)
	}
	want(room("mine", 0), "[] false")
	keep("mine", 0)
	if err := s.Settle(4, "for a test", time.Now()); err != nil {
		t.Fatal(err)
	}
	want(room("mine", 0), "[4] false")
	keep("mine", 0)
	want(room("mine", 0), "[2] false")
	want(room("new", 1000+1), "[] false")

	large := keep("large", 1000-100)
	want(room("large", 10), "[] false")
	want(room("large", 200), fmt.Sprintf("[%d] false", large))

	for i := range 8 {
		keep(fmt.Sprint("session", i), 1000)
	}
	want(room("newest", 10), "[] true")
	if _, err := s.About(1); err != nil {
		t.Errorf("another session's conflict: %v", err)
	}
}
