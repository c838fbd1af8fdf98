package conflict

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestErase: what has a text or is about a version goes, open and settled, and all else
// stays.
func TestErase(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "conflicts"))
	keep := func(about About, texts Texts) int {
		t.Helper()
		id, err := s.Keep(about, texts)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	keep(About{Path: "/a"}, Texts{Yours: []byte("a canary sings")})
	keep(About{Path: "/b"}, Texts{Yours: []byte("b"), Base: []byte("canary")})
	settled := keep(About{Path: "/c"}, Texts{Yours: []byte("c"), Theirs: []byte("canary")})
	keep(About{Path: "/canary"}, Texts{Yours: []byte("d")})
	keep(About{Path: "/e", Base: &Side{Version: "memver_1", Path: "/e"}}, Texts{Yours: []byte("e")})
	keep(About{Path: "/f", Theirs: &Side{Version: "memver_2", Path: "/canary"}}, Texts{Yours: []byte("f")})
	keep(About{Path: "/g", Base: &Side{Version: "memver_3", Path: "/g"}}, Texts{Yours: []byte("g")})
	if err := s.Settle(settled, "dismissed", time.Now()); err != nil {
		t.Fatal(err)
	}
	damaged := keep(About{Path: "/0"}, Texts{Yours: []byte("0")}) // which keeps none of the others
	spoil := filepath.Join(s.Dir(), strconv.Itoa(damaged), "about")
	whole, err := os.ReadFile(spoil)
	if err == nil {
		err = os.WriteFile(spoil, []byte("{"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Erase(map[string]bool{"memver_3": true}, func([]byte) bool { return false }); n != 1 || err == nil {
		t.Errorf("beside one that is damaged: %d, %v", n, err)
	}
	if versions, err := s.Versions(); !slices.Equal(versions, []string{"memver_1", "memver_2"}) || err == nil {
		t.Errorf("beside one that is damaged, the versions are %q, %v", versions, err)
	}
	if err := os.WriteFile(spoil, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	erase := func() int {
		t.Helper()
		n, err := s.Erase(map[string]bool{"memver_1": true}, func(text []byte) bool { return bytes.Contains(text, []byte("canary")) })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := erase(); n != 6 {
		t.Errorf("%d are erased, want 6", n)
	}
	if n := erase(); n != 0 {
		t.Errorf("%d are erased once more", n)
	}
	if all, err := s.ListAll(); err != nil || len(all) != 1 || all[0].ID != damaged {
		t.Errorf("left: %+v, %v", all, err)
	}
	err = filepath.WalkDir(s.Dir(), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "canary") {
			t.Errorf("%s has it", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestEraseLeft: what a killed process has left of a conflict goes, and what may be of one that lives stays,
// which is said if it has the text.
func TestEraseLeft(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "conflicts"))
	leave := func(name, text string, age time.Duration) {
		t.Helper()
		dir, at := filepath.Join(s.Dir(), ".tmp-"+name), time.Now().Add(-age)
		for _, err := range []error{
			os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, YoursFile), []byte(text), 0o600), os.Chtimes(dir, at, at),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	leave("old", "canary", 2*beingKept)
	leave("young", "canary", 0)
	leave("other", "another", 0)
	has := func(text []byte) bool { return bytes.Contains(text, []byte("canary")) }
	if n, err := s.Erase(nil, has); n != 1 || !errors.Is(err, errBeingKept) {
		t.Errorf("%d, %v", n, err)
	}
	if err := os.RemoveAll(filepath.Join(s.Dir(), ".tmp-young")); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Erase(nil, has); n != 0 || err != nil {
		t.Errorf("once more: %d, %v", n, err)
	}
	if left, err := os.ReadDir(s.Dir()); err != nil || len(left) != 1 {
		t.Errorf("left is %v, %v", left, err)
	}
}
