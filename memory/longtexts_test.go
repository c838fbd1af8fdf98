package memory_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"mneme/memory"
	"mneme/versionlog"
)

// TestLongTexts: a message that everyone would have to read with the history is refused, and
// nothing of its commit happens.
func TestLongTexts(t *testing.T) {
	f := newFixture(t, nil)
	changes := []memory.Change{{Action: versionlog.Put, Path: "/a", Content: []byte("1"), Expect: versionlog.ExpectAny()}}
	for n, want := range map[int]bool{versionlog.MaxMessage: true, versionlog.MaxMessage + 1: false} {
		changes[0].Content = fmt.Append(nil, n)
		_, err := f.Batch(t.Context(), changes, &memory.CommitOptions{Message: strings.Repeat("m", n)})
		if (err == nil) != want || err != nil && !errors.Is(err, versionlog.ErrInvalid) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if tip, err := f.Tip(t.Context()); err != nil || tip.Seq != 1 {
		t.Errorf("%+v, %v", tip, err)
	}
}
