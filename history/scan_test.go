package history

import (
	"context"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// Credentials that nothing has issued, in parts, so that no scanner takes this file for one that
// holds any.
const (
	aKey       = "AK" + "IA" + "Q7XK2M5PLW3RT6ZB"
	anotherKey = "AK" + "IA" + "3LMQ6W2ZPX5YTR7N"
)

// TestScanSecrets holds that a scan finds each content with a credential once, with all versions
// that have it, wherever they are, says whether it is live, and counts what cannot be read.
func TestScanSecrets(t *testing.T) {
	blobs := memcas.New()
	lib := memory.NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := lib.Open(t.Context(), info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}})
	if err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) versionlog.Version {
		t.Helper()
		v, err := s.Write(t.Context(), path, []byte(text), versionlog.ExpectAny())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := write("/a", "key "+aKey)
	c, err := s.Rename(t.Context(), "/a", "/b", nil)
	if err != nil {
		t.Fatal(err)
	}
	copied := write("/dir/c", "key "+aKey)
	write("/b", "none")
	live := write("/d", anotherKey+"\n"+aKey)
	gone := write("/e", "lost")
	if err := blobs.Delete(t.Context(), gone.Digest); err != nil {
		t.Fatal(err)
	}
	done := 0
	all, err := Scan(t.Context(), s, "/", func(n, total int) {
		if done = n; total != 6 {
			t.Errorf("progress %d of %d", n, total)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	leaks, unread := all.Leaks, all.Unread
	if unread != (Unread{Lost: 1}) || done != 6 || len(leaks) != 2 {
		t.Fatalf("it ends with %+v unread, %d leaks, %d commits", unread, len(leaks), done)
	}
	ids := func(l *Leak) (ids []string) {
		for i := range l.Versions {
			ids = append(ids, l.Versions[i].ID)
		}
		return ids
	}
	if got := ids(&leaks[0]); len(got) != 3 || got[0] != first.ID || got[1] != c.Versions[0].ID || got[2] != copied.ID || !leaks[0].Live || len(leaks[0].Found) != 1 {
		t.Errorf("the first leak is %+v", leaks[0])
	}
	if got := ids(&leaks[1]); len(got) != 1 || got[0] != live.ID || !leaks[1].Live || len(leaks[1].Found) != 2 || leaks[1].Found[1].Line != 2 {
		t.Errorf("the second leak is %+v", leaks[1])
	}
	if _, err := s.Remove(t.Context(), "/dir/c", versionlog.ExpectAny()); err != nil {
		t.Fatal(err)
	}
	all, err = Scan(t.Context(), s, "/dir", nil)
	if err != nil || len(all.Leaks) != 1 || all.Leaks[0].Live || len(all.Leaks[0].Versions) != 1 {
		t.Errorf("below /dir: %v, %+v", err, all)
	}
}

// TestScanMentions holds that a scan finds credentials in what is said beside the contents, each
// text once, with where it is, and reads the log once.
func TestScanMentions(t *testing.T) {
	log := &walked{Log: memlog.New(nil)}
	lib := memory.NewLibrary(log, func(string) (cas.Store, error) { return memcas.New(), nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := lib.Open(t.Context(), info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, change := range []struct {
		memory.Change
		message string
	}{
		{memory.Change{Action: versionlog.Put, Path: "/a " + aKey, Content: []byte("1")}, ""},
		{memory.Change{Action: versionlog.Put, Path: "/dir/b", Content: []byte("2")}, "no " + anotherKey},
		{memory.Change{Action: versionlog.Put, Path: "/dir/c", Content: []byte("3")}, "no " + anotherKey},
		{memory.Change{Action: versionlog.Rename, Path: "/a " + aKey, To: "/d"}, "all is well"},
	} {
		change.Expect = versionlog.ExpectAny()
		result, err := s.Batch(t.Context(), []memory.Change{change.Change}, &memory.CommitOptions{Message: change.message})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, result.Versions[0].ID)
	}
	for path, want := range map[string][]Mention{
		"/": {
			{What: memory.MentionPath, Commits: []uint64{1, 4}, Versions: []string{ids[0], ids[3]}},
			{What: memory.MentionMessage, Commits: []uint64{2, 3}},
		},
		"/dir": {{What: memory.MentionMessage, Commits: []uint64{2, 3}}},
		"/d":   {{What: memory.MentionPath, Commits: []uint64{4}, Versions: ids[3:]}},
	} {
		log.walks = 0
		all, err := Scan(t.Context(), s, path, nil)
		if err != nil || log.walks != 1 {
			t.Fatalf("%s: %v, the log is read %d times", path, err, log.walks)
		}
		mentions := all.Mentions
		for i := range mentions {
			if len(mentions[i].Found) != 1 {
				t.Errorf("%s: %+v", path, mentions[i])
			}
			mentions[i].Found = nil
		}
		if diff := cmp.Diff(want, mentions); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

// walked is a log that counts how often its commits are walked over.
type walked struct {
	*memlog.Log
	walks int
}

func (w *walked) Commits(ctx context.Context, storeID string, after uint64) iter.Seq2[*versionlog.Commit, error] {
	w.walks++
	return w.Log.Commits(ctx, storeID, after)
}
