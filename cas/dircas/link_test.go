package dircas_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"mneme/cas"
	"mneme/cas/dircas"
)

// A link that another user has made in place of a directory is not followed.
func TestPlantedLink(t *testing.T) {
	dir, victim := t.TempDir(), t.TempDir()
	data := []byte("text")
	d := cas.Sum(data)
	there := filepath.Join(victim, d.String())
	if err := errors.Join(os.Symlink(victim, filepath.Join(dir, d.String()[:2])), os.WriteFile(there, data, 0o600)); err != nil {
		t.Fatal(err)
	}
	s, err := dircas.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := s.Get(ctx, d); err == nil || errors.Is(err, cas.ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	if _, err := s.Has(ctx, d); err == nil {
		t.Errorf("Has: %v", err)
	}
	if err := s.Delete(ctx, d); err == nil {
		t.Errorf("Delete: %v", err)
	}
	if err := os.Remove(there); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(ctx, data); err == nil {
		t.Error("Put has worked")
	}
	if left, err := os.ReadDir(victim); len(left) > 0 || err != nil {
		t.Errorf("outside there is %v, %v", left, err)
	}
}
