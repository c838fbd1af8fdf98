package fusefs

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestApplyFollowsTheLog applies whatever another session commits, and compares
// the tree with the heads of the log after every commit. It needs no mount.
func TestApplyFollowsTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		blobs := memcas.New()
		lib := memory.NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
		info, err := lib.CreateStore(ctx, "notes", nil)
		if err != nil {
			t.Fatal(err)
		}
		ms, err := lib.Open(ctx, info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "other"}})
		if err != nil {
			t.Fatal(err)
		}
		fs := newFileSystem(ctx, []*memory.Store{ms}, Options{Logger: slog.New(slog.DiscardHandler)})
		s := fs.stores[0]
		if err := s.tree.Walk(ctx); err != nil {
			t.Fatal(err)
		}
		// Few names, and directories that are files at other times.
		path := rapid.SampledFrom([]string{"/a", "/b", "/a/a", "/a/b", "/b/a/a", "/b/a/b", "/c/d/e/f"})
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				text := rapid.SampledFrom([]string{"", "one", "two"}).Draw(t, "text")
				_, _ = ms.Write(ctx, path.Draw(t, "path"), []byte(text), versionlog.ExpectAny())
			},
			"remove": func(t *rapid.T) {
				_, _ = ms.Remove(ctx, path.Draw(t, "path"), versionlog.ExpectAny())
			},
			"remove tree": func(t *rapid.T) {
				_, _ = ms.RemoveTree(ctx, path.Draw(t, "path"), nil)
			},
			"rename": func(t *rapid.T) {
				_, _ = ms.Rename(ctx, path.Draw(t, "from"), path.Draw(t, "to"), nil)
			},
			"swap file and directory": func(t *rapid.T) {
				_, _ = ms.Batch(ctx, []memory.Change{
					{Action: versionlog.Remove, Path: "/a", Expect: versionlog.ExpectAny()},
					{Action: versionlog.Put, Path: "/a/a", Content: []byte("x"), Expect: versionlog.ExpectAny()},
				}, nil)
			},
			"": func(t *rapid.T) {
				for c, err := range ms.Commits(ctx, s.tree.AppliedLocked()) {
					if err != nil {
						t.Fatal(err)
					}
					s.followOne(ctx, c)
				}
				if diff := cmp.Diff(headsOf(ctx, t, ms), filesOf(s.tree.Root(), "")); diff != "" {
					t.Fatalf("the tree differs from the log (-log +tree):\n%s", diff)
				}
				if fresh := loaded(ctx, t, ms); !cmp.Equal(fresh, filesOf(s.tree.Root(), "")) {
					t.Fatalf("a fresh mount shows %v, this one %v", fresh, filesOf(s.tree.Root(), ""))
				}
			},
		})
	})
}

func loaded(ctx context.Context, t *rapid.T, ms *memory.Store) map[string]string {
	fs := newFileSystem(ctx, []*memory.Store{ms}, Options{Logger: slog.New(slog.DiscardHandler)})
	if err := fs.stores[0].tree.Walk(ctx); err != nil {
		t.Fatal(err)
	}
	return filesOf(fs.stores[0].tree.Root(), "")
}

func headsOf(ctx context.Context, t *rapid.T, ms *memory.Store) map[string]string {
	heads := map[string]string{}
	for v, err := range ms.Heads(ctx, "/") {
		if err != nil {
			t.Fatal(err)
		}
		heads[v.Path] = fmt.Sprint(v.ID, " ", v.Size)
	}
	return heads
}

// filesOf lists the files below dir; an empty directory is listed too.
func filesOf(dir *tree.Entry, path string) map[string]string {
	files := map[string]string{}
	for name, n := range dir.ChildrenLocked() {
		at := path + "/" + name
		if !n.IsDir() {
			files[at] = fmt.Sprint(n.HeadLocked().ID(), " ", sizeLocked(n))
			continue
		}
		below := filesOf(n, at)
		if len(below) == 0 {
			files[at+"/"] = "empty"
		}
		for p, v := range below {
			files[p] = v
		}
	}
	return files
}
