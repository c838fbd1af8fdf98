package memory_test

import (
	"errors"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
	"mneme/versionlog/sqlitelog"
)

// TestReadNewest: the newest version comes with its bytes, wherever they are, and without where it has none.
func TestReadNewest(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *memory.Library{
		"memlog": func(*testing.T) *memory.Library {
			return memory.NewLibrary(memlog.New(nil), blobsByStore(func(string) (cas.Store, error) { return memcas.New(), nil }))
		},
		"sqlitelog": func(t *testing.T) *memory.Library { return embeddedLibraries(t)[0] },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, lib := t.Context(), open(t)
			info, err := lib.CreateStore(ctx, "notes", &memory.StoreOptions{MaxMemoryBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			st, err := lib.Open(ctx, info.ID, author)
			if err != nil {
				t.Fatal(err)
			}
			var v versionlog.Version
			for _, text := range []string{"small", "", strings.Repeat("large", sqlitelog.MaxContent)} {
				if v, err = st.Write(ctx, "/a", []byte(text), versionlog.ExpectAny()); err != nil {
					t.Fatal(err)
				}
				got, data, err := st.ReadNewest(ctx, v.MemoryID)
				if err != nil || got != v || data == nil || string(data) != text {
					t.Errorf("%v, %d bytes, %v; want %v, %d bytes", got, len(data), err, v, len(text))
				}
			}
			if _, err := st.Remove(ctx, "/a", versionlog.ExpectAny()); err != nil {
				t.Fatal(err)
			}
			if got, data, err := st.ReadNewest(ctx, v.MemoryID); err != nil || got.Live() || data != nil {
				t.Errorf("of a deletion: %v, %q, %v", got, data, err)
			}
			if _, _, err := st.ReadNewest(ctx, "mem_unknown"); !errors.Is(err, versionlog.ErrNotFound) {
				t.Error(err)
			}
		})
	}
}
