package backend

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"mneme/memory"
	"mneme/verify"
	"mneme/versionlog"
)

// TestBackupBesideDeletion holds that a store which is deleted while its files are
// copied is not in the copy.
func TestBackupBesideDeletion(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	from, to := embedded{t.TempDir()}.location(), embedded{t.TempDir()}.location()
	lib, err := from.Open(t.Context(), &Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	stores := map[string]versionlog.Store{}
	for _, name := range []string{"a", "b"} {
		s, err := lib.CreateStore(t.Context(), name, &memory.StoreOptions{MaxMemoryBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		stores[name] = s
		st, err := lib.Open(t.Context(), s.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			data := bytes.Repeat([]byte{byte('0' + i)}, 200_000)
			if _, err := st.Write(t.Context(), "/"+name+string(data[0]), data, versionlog.ExpectAny()); err != nil {
				t.Fatal(err)
			}
		}
	}
	deleted := false
	out, err := from.Recovery.Backup(t.Context(), to.Dir, nil, func(string, int, int) {
		if deleted {
			return
		}
		deleted = true
		if err := lib.DeleteStore(t.Context(), stores["a"].ID); err != nil {
			t.Error(err)
		}
	})
	if err != nil || !deleted || len(out.Stores) != 1 || out.Stores[0].Slug != "b" || len(out.Lost) > 0 {
		t.Fatalf("backup: %+v, %v", out, err)
	}
	last := filepath.Join(to.Dir, out.LastFile)
	if text, err := os.ReadFile(last); err != nil {
		t.Error(err)
	} else if err := os.Remove(last); err != nil || to.Check() == nil {
		t.Errorf("without %s the copy is one, %v", last, err)
	} else if err := os.WriteFile(last, text, 0o600); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(to.Dir, storesDir, stores["a"].ID)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files of the deleted store: %v", err)
	}
	copied, err := to.Open(t.Context(), &Options{ReadOnly: true, Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	if all, err := copied.Stores(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("the copy has %v, %v", all, err)
	}
	st, err := copied.Open(t.Context(), stores["b"].ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := verify.Store(t.Context(), st, nil, func(p verify.Problem) { t.Errorf("%+v", p) })
	if err != nil || sum.Blobs != 8 {
		t.Errorf("verified %+v, %v", sum, err)
	}
}
