package conflict

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Links that another user has made in the directory are not followed.
func TestPlantedLinks(t *testing.T) {
	for _, name := range []string{"1", settledDir, lastFile} {
		t.Run(name, func(t *testing.T) {
			dir, victim := t.TempDir(), t.TempDir()
			if err := os.Mkdir(filepath.Join(victim, "1"), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{YoursFile, "1/" + YoursFile, lastFile} {
				if err := os.WriteFile(filepath.Join(victim, file), []byte("7"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			target := victim
			if name == lastFile {
				target = filepath.Join(victim, lastFile)
			}
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			s := New(dir)
			for range 2 {
				// Whether these work depends on what they need of the link.
				if id, err := s.Keep(About{Path: "/a", Time: time.Now()}, Texts{Yours: []byte("text")}); err == nil {
					_ = errors.Join(second(s.Rewrite(id, []byte("more"), false)), s.Settle(id, "how", time.Now()), s.Remove(id))
				}
			}
			if text, err := s.Read(1, YoursFile); string(text) == "7" {
				t.Errorf("read what is outside: %v", err)
			}
			_ = s.Remove(1)
			_ = s.Expire(time.Now().Add(2 * Life))
			_ = s.RemoveAll()
			for _, file := range []string{YoursFile, "1/" + YoursFile, lastFile} {
				if text, err := os.ReadFile(filepath.Join(victim, file)); string(text) != "7" {
					t.Errorf("outside, %s is %q, %v", file, text, err)
				}
			}
			if left, err := os.ReadDir(victim); len(left) != 3 {
				t.Errorf("outside there is %v, %v", left, err)
			}
		})
	}
}
