package fusefs

import (
	"fmt"
	"testing"

	"mneme/session"
)

// TestLostIsBounded knows of more paths that are gone than are remembered.
func TestLostIsBounded(t *testing.T) {
	r := newRig(t)
	r.must(r.s.walk(t.Context()))
	for i := range 1<<16 + 10 { // as leave does for every file that was read and that another session removes
		r.s.remember(fmt.Sprint("/f", i), session.Nothing())
	}
	if n := len(r.s.lost); n > 1<<16 {
		t.Errorf("what the session knows of %d paths that are gone is kept", n)
	}
}
