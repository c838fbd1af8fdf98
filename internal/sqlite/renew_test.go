package sqlite

import (
	"slices"
	"testing"
)

// TestRenew: connections that were opened before are used no more, those that were in use then
// among them.
func TestRenew(t *testing.T) {
	db, _ := newDB(t)
	two := func(between func()) (used [2]*Conn) {
		t.Helper()
		err := db.With(t.Context(), func(c *Conn) error {
			used[0] = c
			err := db.With(t.Context(), func(c *Conn) error {
				used[1] = c
				return nil
			})
			between()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return used
	}
	before := two(func() {
		if err := db.Renew(); err != nil {
			t.Error(err)
		}
	})
	after := two(func() {})
	for _, c := range before {
		if slices.Contains(after[:], c) {
			t.Error("a connection is used that was opened before")
		}
	}
	if kept := two(func() {}); kept != after {
		t.Error("a connection is not kept that was opened after, or not used before one that was put back earlier")
	}
}
