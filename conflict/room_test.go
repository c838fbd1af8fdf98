package conflict_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"mneme/conflict"
)

// TestMakeRoom: a session that keeps more and more conflicts loses its own oldest, the
// settled ones first, and never another session's.
func TestMakeRoom(t *testing.T) {
	s := conflict.New(t.TempDir())
	keep := func(session string, size int64) int {
		t.Helper()
		id, err := s.Keep(conflict.About{Session: session, Path: "/f", Theirs: &conflict.Side{Size: size}}, conflict.Texts{Yours: []byte("text")})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	room := func(session string, size int64) string {
		t.Helper()
		removed, err := s.MakeRoom(conflict.About{Session: session, Theirs: &conflict.Side{Size: size}})
		var ids []int
		for _, about := range removed {
			ids = append(ids, about.ID)
		}
		if err != nil && !errors.Is(err, conflict.ErrFull) {
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
	for range conflict.MaxOfSession - 1 {
		keep("mine", 0)
	}
	want(room("mine", 0), "[] false")
	keep("mine", 0)
	if err := s.Settle(7, "for a test", time.Now()); err != nil {
		t.Fatal(err)
	}
	want(room("mine", 0), "[7] false")
	keep("mine", 0)
	want(room("mine", 0), "[2] false")
	want(room("new", conflict.MaxBytesOfSession+1), "[] false")

	large := keep("large", conflict.MaxBytesOfSession-100)
	want(room("large", 10), "[] false")
	want(room("large", 200), fmt.Sprintf("[%d] false", large))

	for i := range conflict.MaxBytesOfStore/conflict.MaxBytesOfSession + 1 {
		keep(fmt.Sprint("session", i), conflict.MaxBytesOfSession)
	}
	want(room("newest", 10), "[] true")
	if _, err := s.About(1); err != nil {
		t.Errorf("another session's conflict: %v", err)
	}
}
