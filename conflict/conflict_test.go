package conflict

import (
	"errors"
	"os"
	"path/filepath"
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
	if err := s.Rewrite(1, []byte("mine and more")); err != nil {
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
	for _, err := range []error{s.Remove(2), s.Rewrite(2, nil), second(s.About(2)), second(s.Read(2, YoursFile))} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("of a removed one: %v", err)
		}
	}
	if id, err = s.Keep(About{}, Texts{}); err != nil || id != 3 {
		t.Errorf("a number was used again: %d, %v", id, err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestKeepAtOnce(t *testing.T) {
	dir := t.TempDir()
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 5 {
				if _, err := New(dir).Keep(About{Path: "/f"}, Texts{Yours: []byte("x")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	list, err := New(dir).List()
	if err != nil || len(list) != 20 {
		t.Errorf("%d conflicts, %v; want 20", len(list), err)
	}
	for i, about := range list {
		if about.ID != i+1 {
			t.Errorf("conflict %d says it is %d", i+1, about.ID)
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
