package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/forget"
	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestApplyFollowsTheLog applies whatever another session commits, and compares
// the tree with the heads of the log after every commit.
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
		shown := loaded(ctx, t, ms)
		late := 0 // how many changes more are followed late
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
				_, _ = ms.RemoveTree(ctx, path.Draw(t, "path"), nil, nil)
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
			"be late": func(*rapid.T) { late = 4 },
			"make a directory": func(t *rapid.T) {
				_, _ = ms.MakeDir(ctx, path.Draw(t, "path"), versionlog.ExpectAny(), nil)
			},
			"redact": func(t *rapid.T) { redactAll(ctx, t, ms) },
			"": func(t *rapid.T) {
				if late > 0 {
					late--
					return
				}
				for c, err := range ms.Commits(ctx, shown.Shown().Seq) {
					if err != nil {
						t.Fatal(err)
					}
					shown.apply(c)
				}
				if diff := cmp.Diff(headsOf(ctx, t, ms), shown.files()); diff != "" {
					t.Fatalf("the tree differs from the log (-log +tree):\n%s", diff)
				}
				if fresh := loaded(ctx, t, ms).files(); !cmp.Equal(fresh, shown.files()) {
					t.Fatalf("a fresh tree has %v, this one %v", fresh, shown.files())
				}
			},
		})
	})
}

// redactAll erases each version of a store that can be.
func redactAll(ctx context.Context, t interface{ Fatal(args ...any) }, ms *memory.Store) {
	for c, err := range ms.Commits(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range c.Versions {
			if _, err := forget.Redact(ctx, nil, ms, &forget.Request{Versions: []string{v.ID}, Reason: "a test"}); err != nil && !errors.Is(err, versionlog.ErrLiveHead) {
				t.Fatal(err)
			}
		}
	}
}

// quiet is a tree that tells its Invalidator nothing.
type quiet struct {
	*Tree
	mu sync.RWMutex
}

// loaded is what a fresh tree has of a store.
func loaded(ctx context.Context, t *rapid.T, ms *memory.Store) *quiet {
	q := &quiet{}
	q.Tree = New(ctx, &q.mu, ms, testOptions(&teller{used: func(*Entry) bool { return true }}, func(task func()) { task() }))
	tip, err := ms.Tip(ctx)
	if err != nil {
		t.Fatal(err)
	}
	q.BeginAt(tip)
	if err := q.Walk(ctx); err != nil {
		t.Fatal(err)
	}
	return q
}

func (q *quiet) apply(c *versionlog.Commit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ApplyLocked(c)
	q.ShownLocked(c)
}

// files lists what is in the tree; an empty directory is listed too.
func (q *quiet) files() map[string]string {
	files := map[string]string{}
	var walk func(dir *Entry, path string)
	walk = func(dir *Entry, path string) {
		for name, n := range dir.children {
			at := path + "/" + name
			switch {
			case !n.IsDir():
				files[at] = fmt.Sprint(n.head.ID(), " ", n.head.Size())
			case len(n.children) == 0:
				files[at+"/"] = "empty"
			default:
				walk(n, at)
			}
		}
	}
	walk(q.root, "")
	return files
}

func headsOf(ctx context.Context, t *rapid.T, ms *memory.Store) map[string]string {
	heads := map[string]string{}
	for v, err := range ms.Tree(ctx, "/") {
		if err != nil {
			t.Fatal(err)
		}
		for dir := range heads { // which is not empty
			if strings.HasSuffix(dir, "/") && strings.HasPrefix(v.Path, dir) {
				delete(heads, dir)
			}
		}
		if v.IsDir() {
			heads[v.Path] = "empty"
			continue
		}
		heads[v.Path] = fmt.Sprint(v.ID, " ", v.Size)
	}
	return heads
}

// TestListOfWhatIsWrittenOn lists a directory while another session writes in it,
// page by page: that is no reason to begin again.
func TestListOfWhatIsWrittenOn(t *testing.T) {
	for name, change := range map[string]func(w *world, n int) error{
		"changed": func(w *world, n int) error { return w.write("/d/a", fmt.Sprint(n)) },
		"removed and made": func(w *world, n int) error {
			_, err := w.other.Remove(w.Context(), "/d/a", versionlog.ExpectAny())
			w.follow(1)
			return errors.Join(err, w.write("/d/a", fmt.Sprint(n)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.must(errors.Join(w.write("/d/a", "a"), w.write("/d/b", "b"), w.write("/e", "e")))
			tip, err := w.other.Tip(t.Context())
			w.must(err)
			w.BeginAt(tip)
			pages := 0
			w.log.Each(logfault.AfterPage, func() {
				if pages++; pages <= 200 {
					w.must(change(w, pages))
					w.follow(1)
				}
			})
			w.must(w.Ensure(t.Context(), w.root, "d"))
			w.must(w.EnsureAll(t.Context(), w.dir("/d")))
			if names := w.paths(); pages > 20 || !slices.Contains(names, "/d/a") || !slices.Contains(names, "/d/b") {
				t.Errorf("the directory was read in %d pages: %q", pages, names)
			}
		})
	}
}

func (w *world) write(path, text string) error {
	_, err := w.other.Write(w.Context(), path, []byte(text), versionlog.ExpectAny())
	return err
}
