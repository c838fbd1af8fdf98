package dynamolog

import (
	"errors"
	"testing"

	"mneme/versionlog"
)

// TestViewBefore: what a view has learnt since is not known to the view before,
// and what it knew is.
func TestViewBefore(t *testing.T) {
	at := func(path string, seq uint64) *versionlog.Version {
		return &versionlog.Version{Path: path, Seq: seq, MemoryID: "m" + path}
	}
	v := newView(&meta{tip: versionlog.Tip{Seq: 9}}, bounds{facts: 100, heads: 100, ring: 8})
	walk := v.beginWalk()
	head := func(path string) func(*view) error {
		return func(v *view) error { _, err := v.Head(path); return err }
	}
	for i, step := range []struct {
		learn func()
		ask   func(*view) error
	}{
		{func() { v.learn("/a", at("/a", 3), 9) }, head("/a")},
		{func() { v.learn("/gone", nil, 9) }, head("/gone")},
		{func() { v.learnBelow("/d", siblings{all: true}, 9) }, func(v *view) error { _, err := v.below("/d"); return err }},
		{func() { v.learnNewest("m", at("/m", 4), 9) }, func(v *view) error { _, err := v.Newest("m"); return err }},
		{func() { v.endWalk(walk, true) }, head("/elsewhere")},
	} {
		reads := v.reads
		step.learn()
		before := v.before(reads)
		if err := step.ask(v); err != nil {
			t.Errorf("step %d: not learnt: %v", i, err)
		}
		if err := step.ask(before); !errors.Is(err, errUnknown) {
			t.Errorf("step %d: known before, %v", i, err)
		}
		if err := head("/a")(before); i > 0 && err != nil {
			t.Errorf("step %d: what was known is not known before: %v", i, err)
		}
	}
}
