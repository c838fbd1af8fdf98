package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/session"
	"mneme/session/conflict"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// narrow is a log that takes only so many changes in one commit.
type narrow struct {
	versionlog.Log
	most int
}

func (l *narrow) Commit(ctx context.Context, store string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	if len(p.Changes) > l.most {
		return nil, versionlog.ErrTooLarge
	}
	return l.Log.Commit(ctx, store, p)
}

// shared is a store of several sessions. The log interferes with what "mine" commits.
type shared struct {
	*testing.T
	log       *logfault.Log
	lib       *memory.Library
	id        string
	conflicts *conflict.Store
	stores    map[string]*memory.Store
}

// newShared makes a store whose log takes so many changes in one commit.
func newShared(t *testing.T, most int) *shared {
	t.Helper()
	r := newLibrary(t, most)
	info, err := r.lib.CreateStore(t.Context(), "notes", &memory.StoreOptions{Content: versionlog.ContentAny})
	r.must(err)
	r.id = info.ID
	return r
}

// newLibrary is newShared without the store.
func newLibrary(t *testing.T, most int) *shared {
	t.Helper()
	r := &shared{T: t, log: logfault.New(&narrow{memlog.New(nil), most}, &logfault.Options{Session: "mine"}), stores: map[string]*memory.Store{}, conflicts: conflict.New(t.TempDir())}
	blobs := memcas.New()
	r.lib = memory.NewLibrary(r.log, func(string) (cas.Store, error) { return blobs, nil })
	return r
}

func (r *shared) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// as returns the store as a session has it.
func (r *shared) as(id string) *memory.Store {
	r.Helper()
	if r.stores[id] == nil {
		st, err := r.lib.Open(r.Context(), r.id, memory.SessionAuthor(id))
		r.must(err)
		r.stores[id] = st
	}
	return r.stores[id]
}

func (r *shared) session(id string) *session.Session {
	r.Helper()
	s := session.New(r.as(id), &session.Options{ID: id, Conflicts: r.conflicts})
	r.Cleanup(s.Close)
	return s
}

// write makes a text the content of a memory, in the name of a session.
func (r *shared) write(id, path, text string) {
	r.Helper()
	_, err := r.as(id).Write(r.Context(), path, []byte(text), versionlog.ExpectAny())
	r.must(err)
}

func (r *shared) tip() uint64 {
	r.Helper()
	tip, err := r.as("mine").Tip(r.Context())
	r.must(err)
	return tip.Seq
}

// texts returns the memories of the store with their contents, and its directories with "".
func (r *shared) texts() map[string]string {
	r.Helper()
	all := map[string]string{}
	for v, err := range r.as("mine").Tree(r.Context(), "/") {
		r.must(err)
		text := ""
		if !v.IsDir() {
			data, err := r.as("mine").Content(r.Context(), v)
			r.must(err)
			text = string(data)
		}
		all[v.Path] = text
	}
	return all
}

func (r *shared) want(texts map[string]string) {
	r.Helper()
	if diff := cmp.Diff(texts, r.texts()); diff != "" {
		r.Fatalf("the store has\n%s", diff)
	}
}

// TestRestoreTreeInCommits: where the log takes few changes at once, a restore is several commits;
// whatever becomes of any of them, the same call goes on, and what it has made can be taken back.
func TestRestoreTreeInCommits(t *testing.T) {
	for _, fate := range []logfault.Fate{logfault.Made, logfault.Unheard, logfault.Unmade} {
		for failing := range 4 {
			t.Run(fmt.Sprint(fate, failing), func(t *testing.T) {
				r := newShared(t, 3)
				for i := range 4 {
					r.write("theirs", fmt.Sprintf("/old/%d", i), "old")
					r.write("theirs", fmt.Sprintf("/changed/%d", i), "old")
				}
				then, point := r.texts(), r.tip()
				for i := range 4 {
					_, err := r.as("theirs").Remove(t.Context(), fmt.Sprintf("/old/%d", i), versionlog.ExpectAny())
					r.must(err)
					r.write("theirs", fmt.Sprintf("/changed/%d", i), "new")
					r.write("theirs", fmt.Sprintf("/old/%d/f", i), "new")
				}
				now, before := r.texts(), r.tip()
				fates := slices.Repeat([]logfault.Fate{logfault.Made}, 2+failing) // two are too large
				r.log.SetFates(append(fates, fate)...)
				progress := 0
				opts := &session.StepOptions{Progress: func(_ string, done, total int) { progress = max(progress, done*100/total) }}
				done, err := r.session("mine").RestoreTree(t.Context(), "/", point, opts)
				switch {
				case fate == logfault.Made:
					r.must(err)
					if done.Commits != 4 || done.First != before+1 || done.Last != before+4 || progress != 100 {
						t.Errorf("it made %+v, and came to %d %%", done, progress)
					}
				case !errors.Is(err, logfault.ErrDown) || done.Commits != failing:
					t.Fatalf("it made %+v, and ended with %v", done, err)
				default:
					_, err := r.session("mine").RestoreTree(t.Context(), "/", point, nil)
					r.must(err)
				}
				r.want(then)
				_, err = r.session("mine").RestoreTree(t.Context(), "/", before, nil)
				r.must(err)
				r.want(now)
			})
		}
	}
}

// TestRestoreTreeBesideOthers: what another session changes meanwhile stays, with what its being
// there prevents, and is named.
func TestRestoreTreeBesideOthers(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(r *shared)
		left      []string
		want      map[string]string
	}{
		"changes":    {func(r *shared) { r.write("theirs", "/b", "theirs") }, []string{"/b"}, map[string]string{"/a": "old", "/b": "theirs", "/c/d": "old"}},
		"elsewhere":  {func(r *shared) { r.write("theirs", "/x", "theirs") }, nil, map[string]string{"/a": "old", "/b": "old", "/c/d": "old", "/x": "theirs"}},
		"in its way": {func(r *shared) { r.write("theirs", "/c", "theirs") }, []string{"/c", "/c/d"}, map[string]string{"/a": "old", "/b": "old", "/c": "theirs"}},
		"the same":   {func(r *shared) { r.write("theirs", "/b", "old") }, nil, map[string]string{"/a": "old", "/b": "old", "/c/d": "old"}},
		"removes": {func(r *shared) {
			_, err := r.as("theirs").Remove(r.Context(), "/b", versionlog.ExpectAny())
			r.must(err)
		}, []string{"/b"}, map[string]string{"/a": "old", "/c/d": "old"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newShared(t, 100)
			for _, path := range []string{"/a", "/b", "/c/d"} {
				r.write("theirs", path, "old")
			}
			point := r.tip()
			for _, path := range []string{"/a", "/b", "/new"} {
				r.write("theirs", path, "new")
			}
			_, err := r.as("theirs").Remove(t.Context(), "/c/d", versionlog.ExpectAny())
			r.must(err)
			r.log.Next(logfault.BeforeCommit, func() { test.meanwhile(r) })
			done, err := r.session("mine").RestoreTree(t.Context(), "/", point, nil)
			r.must(err)
			r.want(test.want)
			var left []string
			for _, l := range done.Left {
				left = append(left, l.Path)
			}
			if !slices.Equal(left, test.left) {
				t.Errorf("it left %q, want %q", left, test.left)
			}
		})
	}
}

// TestRestoreTreeCut: changes that others make between a restore that was cut and the same call
// again stay, as do those that they make meanwhile. Once the restore has come to its end, the
// next one begins again, as one of another path does. A session's own claims in its commit are
// not believed.
func TestRestoreTreeCut(t *testing.T) {
	paths := []string{"/d/0", "/d/1", "/d/2", "/d/3", "/d/4", "/d/5", "/d/6", "/d/7"}
	all := func(text string, but ...string) map[string]string {
		texts := map[string]string{}
		for _, path := range paths {
			if texts[path] = text; slices.Contains(but, path) {
				texts[path] = "theirs"
			}
		}
		return texts
	}
	for _, then := range []string{"/d", "/", "elsewhere"} {
		r := newShared(t, 2)
		for _, text := range []string{"old", "new"} {
			for _, path := range paths {
				r.write("A", path, text)
			}
		}
		point := uint64(len(paths))
		restore := func(path string, cutAt int) (*session.Steps, error) {
			s := session.New(r.as("mine"), &session.Options{Conflicts: r.conflicts})
			defer s.Close()
			ctx, cut := context.WithCancel(t.Context())
			defer cut()
			return s.RestoreTree(ctx, path, point, &session.StepOptions{Actor: person, Progress: func(step string, done, _ int) {
				if step == "writing" && done == cutAt {
					cut()
				}
			}})
		}
		cut := func() {
			t.Helper()
			if done, err := restore("/d", 2); !errors.Is(err, context.Canceled) || done.Commits != 1 {
				t.Fatalf("it made %+v, and ended with %v", done, err)
			}
		}
		cut()
		var notes map[string]string
		for c, err := range r.as("B").CommitsBefore(t.Context(), 0, versionlog.Filter{}) {
			r.must(err)
			notes = c.Meta
			break
		}
		r.write("B", "/d/1", "theirs")
		r.write("B", "/d/4", "theirs")
		if then == "/" {
			_, err := restore("/", -1)
			r.must(err)
			r.want(all("old"))
			change := memory.Change{Action: versionlog.Put, Path: "/d/2", Content: []byte("an agent's"), Expect: versionlog.ExpectAny()}
			_, err = r.as("A").Batch(t.Context(), []memory.Change{change}, &memory.CommitOptions{Meta: notes})
			r.must(err)
			_, err = restore("/", -1)
			r.must(err)
			r.want(all("old"))
			continue
		}
		cut()
		if then == "elsewhere" { // back and forth: the first restore was given up
			point = 2 * uint64(len(paths))
			_, err := restore("/", -1)
			r.must(err)
			point /= 2
			_, err = restore("/d", -1)
			r.must(err)
			r.want(all("old"))
			continue
		}
		r.write("B", "/d/5", "theirs")
		done, err := restore("/d", -1)
		if err != nil || done.Commits != 1 || len(done.Left) != 3 {
			t.Fatalf("the same call makes %+v, %v", done, err)
		}
		r.want(all("old", "/d/1", "/d/4", "/d/5"))
		_, err = restore("/d", -1)
		r.must(err)
		r.want(all("old"))
	}
}
