package dircas_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mneme/cas/dircas"
)

// TestEraseLeft: what killed processes have left half written goes; what may be of a process that lives stays,
// which is said if it has the text.
func TestEraseLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	s := open(t, dir)
	has := func(text []byte) bool { return bytes.Contains(text, []byte("canary")) }
	if n, err := s.EraseLeft(t.Context(), has); n != 0 || err != nil {
		t.Errorf("of nothing: %d, %v", n, err)
	}
	put(t, s, "the canary that is stored") // which another redaction is for
	leave := func(name, text string, age time.Duration) {
		t.Helper()
		file, at := filepath.Join(dir, "58", ".tmp-"+name), time.Now().Add(-age)
		for _, err := range []error{os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600), os.Chtimes(file, at, at)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	leave("old", "the canary", time.Hour)
	leave("other", "another", 0)
	if n, err := s.EraseLeft(t.Context(), has); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	leave("young", "half a canary", 0)
	if n, err := s.EraseLeft(t.Context(), has); n != 0 || !errors.Is(err, dircas.ErrBeingPut) {
		t.Errorf("beside a young one: %d, %v", n, err)
	}
}
