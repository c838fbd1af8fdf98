package memory

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestScanSecrets holds that a scan finds each content with a credential once, with all versions
// that have it, wherever they are, says whether it is live, and counts what cannot be read.
func TestScanSecrets(t *testing.T) {
	blobs := memcas.New()
	lib := NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := lib.Open(t.Context(), info.ID, &Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}})
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
	leaks, unread, err := s.ScanSecrets(t.Context(), "/", func(n, total int) {
		if done = n; total != 6 {
			t.Errorf("progress %d of %d", n, total)
		}
	})
	if err != nil || unread != (Unread{Lost: 1}) || done != 6 || len(leaks) != 2 {
		t.Fatalf("it ends with %v, %+v unread, %d leaks, %d commits", err, unread, len(leaks), done)
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
	leaks, _, err = s.ScanSecrets(t.Context(), "/dir", nil)
	if err != nil || len(leaks) != 1 || leaks[0].Live || len(leaks[0].Versions) != 1 {
		t.Errorf("below /dir: %v, %+v", err, leaks)
	}
}

// TestScanMentions holds that a scan finds credentials in what is said beside the contents, each
// text once, with where it is.
func TestScanMentions(t *testing.T) {
	lib := NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return memcas.New(), nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := lib.Open(t.Context(), info.ID, &Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, change := range []struct {
		Change
		message string
	}{
		{Change{Action: versionlog.Put, Path: "/a " + aKey, Content: []byte("1")}, ""},
		{Change{Action: versionlog.Put, Path: "/dir/b", Content: []byte("2")}, "no " + anotherKey},
		{Change{Action: versionlog.Put, Path: "/dir/c", Content: []byte("3")}, "no " + anotherKey},
		{Change{Action: versionlog.Rename, Path: "/a " + aKey, To: "/d"}, "all is well"},
	} {
		change.Expect = versionlog.ExpectAny()
		result, err := s.Batch(t.Context(), []Change{change.Change}, &CommitOptions{Message: change.message})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, result.Versions[0].ID)
	}
	for path, want := range map[string][]Mention{
		"/": {
			{What: MentionPath, Commits: []uint64{1, 4}, Versions: []string{ids[0], ids[3]}},
			{What: MentionMessage, Commits: []uint64{2, 3}},
		},
		"/dir": {{What: MentionMessage, Commits: []uint64{2, 3}}},
		"/d":   {{What: MentionPath, Commits: []uint64{4}, Versions: ids[3:]}},
	} {
		mentions, err := s.ScanMentions(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
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
