package memory_test

import (
	"errors"
	"slices"
	"testing"

	"mneme/memory"
	"mneme/versionlog"
)

// TestDirectoriesAreNoMemories: what lists memories passes over directories that are
// in the log themselves, and what lists a directory has them.
func TestDirectoriesAreNoMemories(t *testing.T) {
	f := newFixture(t, nil)
	for _, path := range []string{"/d/", "/empty/", "/empty/in/", "/full/"} {
		_, err := f.Log.Commit(t.Context(), f.Info().ID, &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{
			{Action: versionlog.MakeDir, Path: path, Expect: versionlog.ExpectAny()},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	f.Put("/full/x", "1", versionlog.ExpectAny())
	f.Put("/full/y", "1", versionlog.ExpectAny())
	f.Put("/z", "1", versionlog.ExpectAny())
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
	if got, want := paths(f.Entries(t.Context(), "/")), []string{"/d/", "/empty/", "/full/", "/z"}; !slices.Equal(got, want) {
		t.Errorf("entries are %q, want %q", got, want)
	}
}

// TestMakeDir: a directory is there from when it is made until it is removed, moves with
// what is in it, and goes with it.
func TestMakeDir(t *testing.T) {
	f := newFixture(t, nil)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tree := func(want ...string) {
		t.Helper()
		var got []string
		for v, err := range f.Tree(ctx, "/") {
			must(err)
			got = append(got, v.Path)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the tree is %q, want %q", got, want)
		}
	}
	made, err := f.MakeDir(ctx, "/café", versionlog.ExpectAbsent(), nil)
	must(err)
	if there, err := f.Dir(ctx, "/café"); err != nil || there != made || made.Path != "/café/" {
		t.Errorf("it is %+v, %v, and was made as %+v", there, err, made)
	}
	if _, err = f.MakeDir(ctx, "/café", versionlog.ExpectAbsent(), nil); !errors.Is(err, versionlog.ErrConflict) {
		t.Errorf("made twice: %v", err)
	}
	if again, err := f.MakeDir(ctx, "/café", versionlog.ExpectAny(), nil); err != nil || again != made {
		t.Errorf("where it may be: %+v, %v", again, err)
	}
	f.Put("/implied/x", "1", versionlog.ExpectAny())
	if v, err := f.MakeDir(ctx, "/implied", versionlog.ExpectAny(), nil); err != nil || v.ID != "" {
		t.Errorf("one that a memory implies: %+v, %v", v, err)
	}
	f.Put("/café/a", "1", versionlog.ExpectAny())
	_, err = f.MakeDir(ctx, "/café/in", versionlog.ExpectAbsent(), nil)
	must(err)
	if _, err := f.RemoveDir(ctx, "/café", nil); !errors.Is(err, versionlog.ErrOverlap) {
		t.Errorf("removed though something is in it: %v", err)
	}
	if _, err := f.RemoveDir(ctx, "/implied", nil); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("removed though only implied: %v", err)
	}
	_, err = f.Rename(ctx, "/café", "/moved", nil)
	must(err)
	tree("/implied/x", "/moved/", "/moved/a", "/moved/in/")
	_, err = f.RemoveTree(ctx, "/moved", nil, nil)
	must(err)
	tree("/implied/x")
	_, err = f.MakeDir(ctx, "/d", versionlog.ExpectAbsent(), nil)
	must(err)
	if gone, err := f.RemoveDir(ctx, "/d", nil); err != nil || gone.Live() {
		t.Errorf("removed: %+v, %v", gone, err)
	}
	tree("/implied/x")
}

// TestPathsOfDirectories: the path of a directory obeys the rules of others, and nothing
// but a directory has a slash at its end.
func TestPathsOfDirectories(t *testing.T) {
	f := newFixture(t, nil)
	for _, bad := range []string{"", "/", "/d/", "/../x", "/ ", "/\u3164"} {
		if _, err := f.MakeDir(t.Context(), bad, versionlog.ExpectAny(), nil); err == nil {
			t.Errorf("%q was made", bad)
		}
	}
	if _, err := f.Write(t.Context(), "/d/", nil, versionlog.ExpectAny()); !errors.Is(err, memory.ErrBadPath) {
		t.Errorf("a memory at the path of a directory: %v, want ErrBadPath", err)
	}
}
