package memory_test

import (
	"errors"
	"slices"
	"testing"

	"mneme/versionlog"
)

// TestDirectoriesAreNoMemories: what lists memories, and follows them, passes over
// directories that are in the log themselves.
func TestDirectoriesAreNoMemories(t *testing.T) {
	f := newFixture(t, nil)
	for _, path := range []string{"/d/", "/empty/", "/empty/in/", "/full/"} {
		_, err := f.log.Commit(t.Context(), f.Info().ID, &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{
			{Action: versionlog.MakeDir, Path: path, Expect: versionlog.ExpectAny()},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	f.write("/full/x", "1", versionlog.ExpectAny())
	f.write("/full/y", "1", versionlog.ExpectAny())
	f.write("/z", "1", versionlog.ExpectAny())
	paths := func(seq func(func(versionlog.Version, error) bool)) (paths []string) {
		t.Helper()
		for v, err := range seq {
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, v.Path)
		}
		return paths
	}
	if got, want := paths(f.Heads(t.Context(), "/")), []string{"/full/x", "/full/y", "/z"}; !slices.Equal(got, want) {
		t.Errorf("heads are %q, want %q", got, want)
	}
	if got, want := paths(f.Children(t.Context(), "/")), []string{"/full/x", "/z"}; !slices.Equal(got, want) {
		t.Errorf("children are %q, want %q", got, want)
	}
	var seen []string
	stop := errors.New("seen all")
	err := f.Follow(t.Context(), versionlog.Tip{}, func(c *versionlog.Commit) error {
		for i := range c.Versions {
			seen = append(seen, c.Versions[i].Path)
		}
		if len(c.Versions) != len(c.Seals) {
			t.Errorf("commit %d has %d versions and %d seals", c.Seq, len(c.Versions), len(c.Seals))
		}
		if c.Seq == 7 {
			return stop
		}
		return nil
	})
	if want := []string{"/full/x", "/full/y", "/z"}; !errors.Is(err, stop) || !slices.Equal(seen, want) {
		t.Errorf("it followed %q, %v, want %q", seen, err, want)
	}
}
