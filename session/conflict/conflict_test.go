package conflict

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestKeep(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "conflicts", "memstore_x"))
	if list, err := s.List(); err != nil || list != nil {
		t.Fatalf("of nothing: %v, %v", list, err)
	}
	about := About{
		Store: "notes", Path: "/todo.md", Session: "s1", Time: time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC), Why: "x",
		Base: &Side{Version: "memver_1", Seq: 4}, Theirs: &Side{Version: "memver_2", Seq: 9, Session: "s2"},
	}
	id, err := s.Keep(about, Texts{Base: []byte("old"), Theirs: []byte{}, Yours: []byte("mine")})
	if err != nil || id != 1 {
		t.Fatalf("Keep = %d, %v", id, err)
	}
	about.ID, about.Size = 1, 4
	check := func(yours string) {
		t.Helper()
		got, err := s.About(1)
		if diff := cmp.Diff(about, got); err != nil || diff != "" {
			t.Errorf("About: %v (-want +got):\n%s", err, diff)
		}
		for name, want := range map[string]string{BaseFile: "old", TheirsFile: "", YoursFile: yours} {
			if data, err := s.Read(1, name); err != nil || data == nil || string(data) != want {
				t.Errorf("%s = %q, %v", name, data, err)
			}
		}
	}
	check("mine")
	if _, err := s.Rewrite(1, []byte("mine and more"), false); err != nil {
		t.Fatal(err)
	}
	about.Size = 13
	check("mine and more")

	if id, err = s.Keep(About{Path: "/new"}, Texts{Yours: nil}); err != nil || id != 2 {
		t.Fatalf("Keep = %d, %v", id, err)
	}
	if data, err := s.Read(2, BaseFile); data != nil || err != nil {
		t.Errorf("base of none: %q, %v", data, err)
	}
	if err := s.Remove(2); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{s.Remove(2), second(s.Rewrite(2, nil, false)), second(s.About(2)), second(s.Read(2, YoursFile))} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("of a removed one: %v", err)
		}
	}
	if id, err = s.Keep(About{}, Texts{}); err != nil || id != 3 {
		t.Errorf("a number was used again: %d, %v", id, err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestKeepAtOnce: each conflict gets the number after the last one, which is not
// used again, also while others keep and remove theirs.
func TestKeepAtOnce(t *testing.T) {
	const keepers, each = 8, 15
	dir := t.TempDir()
	ids := make([][]int, keepers)
	var work sync.WaitGroup
	for i := range keepers {
		work.Go(func() {
			s := New(dir)
			for n := range each {
				id, err := s.Keep(About{Path: "/f"}, Texts{Yours: []byte("x")})
				if err != nil {
					t.Error(err)
				}
				ids[i] = append(ids[i], id)
				if n%2 == 0 {
					continue
				}
				if about, err := s.About(id); err != nil || about.ID != id {
					t.Errorf("conflict %d says it is %d: %v", id, about.ID, err)
				}
				if err := s.Remove(id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(ids...)))
	for i, id := range all {
		if id != i+1 {
			t.Fatalf("number %d is %d: %v", i+1, id, all)
		}
	}
	list, err := New(dir).List()
	if want := keepers * (each + 1) / 2; err != nil || len(list) != want {
		t.Errorf("%d conflicts, %v; want %d", len(list), err, want)
	}
}

// TestSettle settles conflicts: they are listed no more, and read as before.
func TestSettle(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "memstore_x"))
	now := time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC)
	for range 3 {
		if _, err := s.Keep(About{Path: "/a", Time: now}, Texts{Theirs: []byte("theirs"), Yours: []byte("mine")}); err != nil {
			t.Fatal(err)
		}
	}
	var settling sync.WaitGroup
	for range 4 { // several processes may do it at once
		settling.Go(func() {
			if err := s.Settle(2, "written again", now.Add(time.Minute)); err != nil {
				t.Error(err)
			}
		})
	}
	settling.Wait()
	if err := s.Settle(2, "dismissed", now.Add(time.Hour)); err != nil {
		t.Error(err)
	}
	open, errOpen := s.IDs()
	settled, errSettled := s.SettledIDs()
	all, errAll := s.ListAll()
	if err := errors.Join(errOpen, errSettled, errAll); err != nil || !cmp.Equal(open, []int{1, 3}) || !cmp.Equal(settled, []int{2}) || len(all) != 3 {
		t.Errorf("open %v, settled %v, all %v, %v", open, settled, all, err)
	}
	about, err := s.About(2)
	if want := (About{ID: 2, Path: "/a", Time: now, Size: 4, Settled: now.Add(time.Minute), How: "written again"}); err != nil || about != want {
		t.Errorf("About = %+v, %v, want %+v", about, err, want)
	}
	if data, err := s.Read(2, YoursFile); err != nil || string(data) != "mine" {
		t.Errorf("yours = %q, %v", data, err)
	}
	if data, err := s.Read(2, BaseFile); err != nil || data != nil {
		t.Errorf("base of none = %q, %v", data, err)
	}
	if _, err := s.Rewrite(2, []byte("more"), false); !errors.Is(err, ErrNotFound) {
		t.Errorf("Rewrite of a settled one: %v", err)
	}
	if err := s.Settle(9, "dismissed", now); !errors.Is(err, ErrNotFound) {
		t.Errorf("Settle of none: %v", err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir(), lastFile), []byte("0"), 0o600); err != nil { // as after a crash
		t.Fatal(err)
	}
	if err := errors.Join(s.Settle(3, "dismissed", now), s.Remove(1)); err != nil {
		t.Fatal(err)
	}
	if id, err := s.Keep(About{Path: "/a", Time: now}, Texts{}); err != nil || id != 4 {
		t.Errorf("the next is %d, %v", id, err)
	}
	if err := s.Remove(2); err != nil {
		t.Error(err)
	}
	if err := s.Expire(now.Add(Life + time.Second)); err != nil {
		t.Error(err)
	}
	if all, err := s.ListAll(); err != nil || len(all) != 0 {
		t.Errorf("after their time: %v, %v", all, err)
	}
}

// TestSettleAndRemove: a conflict that is settled while it is removed is removed.
func TestSettleAndRemove(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "memstore_x"))
	for range 300 {
		id, err := s.Keep(About{Path: "/a"}, Texts{Yours: []byte("mine")})
		if err != nil {
			t.Fatal(err)
		}
		var settling sync.WaitGroup
		settling.Go(func() {
			if err := s.Settle(id, "written", time.Now()); err != nil && !errors.Is(err, ErrNotFound) {
				t.Error(err)
			}
		})
		if err := s.Remove(id); err != nil {
			t.Error(err)
		}
		settling.Wait()
		if all, err := s.ListAll(); len(all) > 0 || err != nil {
			t.Fatalf("left: %v, %v", all, err)
		}
	}
}

func TestExpire(t *testing.T) {
	dir := t.TempDir()
	s := New(dir)
	now := time.Now()
	for _, age := range []time.Duration{Life + time.Hour, Life - time.Hour} {
		if _, err := s.Keep(About{Time: now.Add(-age)}, Texts{}); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(dir, ".tmp-left")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(left, now, now.Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := s.Expire(now); err != nil {
		t.Fatal(err)
	}
	if ids, err := s.IDs(); err != nil || !cmp.Equal(ids, []int{2}) {
		t.Errorf("left are %v, %v", ids, err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("what a killed process left is still there")
	}
	if err := New(filepath.Join(dir, "none")).Expire(now); err != nil {
		t.Error(err)
	}
}

// FuzzKeep: whatever the texts are, they are read back as they were, beside a
// conflict that something else has written; what that says of itself is read
// or refused.
func FuzzKeep(f *testing.F) {
	f.Add([]byte(`{"id":1,"store":"notes","path":"/a"}`), []byte("base"), []byte("theirs"), []byte("yours"), "/a")
	f.Add([]byte(`{"id":7,"time":"0001-01-01T00:00:00Z","base":{"seq":18446744073709551615}}`), []byte{}, []byte("\x00\xff"), []byte{}, "/\xff")
	f.Add([]byte(`null`), []byte("a\n"), []byte{}, []byte("\n"), "")
	f.Fuzz(func(t *testing.T, foreign, base, theirs, yours []byte, path string) {
		s := New(t.TempDir())
		if err := os.Mkdir(filepath.Join(s.Dir(), dirOf(1)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.Dir(), dirOf(1), AboutFile), foreign, 0o600); err != nil {
			t.Fatal(err)
		}
		_, foreignErr := s.About(1)
		if foreignErr == nil && !json.Valid(foreign) {
			t.Errorf("%q was read", foreign)
		}
		id, err := s.Keep(About{Path: path, Session: "s"}, Texts{Base: base, Theirs: theirs, Yours: yours})
		if err != nil || id != 2 {
			t.Fatalf("kept as %d, %v", id, err)
		}
		for name, want := range map[string][]byte{BaseFile: base, TheirsFile: theirs, YoursFile: yours} {
			if got, err := s.Read(id, name); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is %q, %v, want %q", name, got, err, want)
			}
		}
		if about, err := s.About(id); err != nil || about.ID != id || about.Size != int64(len(yours)) || about.Session != "s" {
			t.Errorf("about is %+v, %v", about, err)
		}
		if list, err := s.List(); (err == nil) != (foreignErr == nil) || err == nil && len(list) != 2 {
			t.Errorf("the list is %v, %v", list, err)
		}
	})
}

// TestAboutIsShown holds that what agents read of a conflict has nothing in it
// that cannot be seen, and that it says the same.
func TestAboutIsShown(t *testing.T) {
	s := New(t.TempDir())
	about := About{Store: "notes", Path: "/a\u3164\u202e", Session: "s\u2800\nx", Why: "one\n" + strings.Repeat("x\u200b", 1<<16), Theirs: &Side{Actor: "user:\u009b"}}
	id, err := s.Keep(about, Texts{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.Read(id, AboutFile)
	if err != nil || strings.ContainsAny(string(text), "\u3164\u202e\u2800\u200b\u009b") || len(text) > 1<<16 {
		t.Errorf("about has %d bytes, %v: %.300q", len(text), err, text)
	}
	got, err := s.About(id)
	if err != nil || got.Path != about.Path || got.Session != about.Session || got.Theirs.Actor != about.Theirs.Actor || !strings.HasPrefix(got.Why, `one; x\u200bx`) {
		t.Errorf("About = %.300v, %v", got, err)
	}
}
