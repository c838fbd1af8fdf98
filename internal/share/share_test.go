package share

import "testing"

// TestTake: a party that has its share gets no more until it gives back, and others do.
func TestTake(t *testing.T) {
	var s Shares
	key := func(token string) []Bound { return []Bound{{"key", 3}, {token, 2}} }
	var back []func()
	take := func(want bool, parties ...Bound) {
		t.Helper()
		giveBack, ok := s.Take(parties...)
		if ok != want {
			t.Fatalf("%v: %v", parties, ok)
		}
		if ok {
			back = append(back, giveBack)
		}
	}
	take(true, key("a")...)
	take(true, key("a")...)
	take(false, key("a")...) // which has counted nothing for the key
	take(true, key("b")...)
	take(false, key("c")...)
	take(true, Bound{"other", 1}, Bound{})
	back[0]()
	back[0]()
	take(true, key("b")...)
	take(false, key("a")...)
	for _, giveBack := range back {
		giveBack()
	}
	if n := s.Parties(); n != 0 {
		t.Errorf("%d parties have something", n)
	}
}
