package versionlog

import (
	"context"
	"fmt"
	"iter"
	"testing"
)

func pathsOf(t *testing.T, versions iter.Seq2[Version, error]) (paths []string) {
	t.Helper()
	for v, err := range versions {
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, v.Path)
	}
	return paths
}

// TestSortedReadsLittle: a search for the children of a directory starts again after each
// of its subdirectories.
func TestSortedReadsLittle(t *testing.T) {
	var heads []Version
	for i := range 3000 {
		heads = append(heads, Version{Path: fmt.Sprintf("/d%d/%04d", i/1000, i)})
	}
	all, read := replayed(heads), 0
	state := Sorted(func(ctx context.Context, path string) iter.Seq2[Version, error] {
		return func(yield func(Version, error) bool) {
			for v, err := range all.state()(ctx, path) {
				if read++; !yield(v, err) {
					return
				}
			}
		}
	})
	if got := pathsOf(t, state.Children(t.Context(), "/")); len(got) != 3 || read != 3 {
		t.Errorf("%q were found among %d versions that were read", got, read)
	}
}
