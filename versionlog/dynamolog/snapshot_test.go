package dynamolog

import (
	"os"
	"path/filepath"
	"testing"

	"mneme/cas"
	"mneme/internal/testing/awstest"
	"mneme/versionlog"

	"github.com/google/go-cmp/cmp"
)

func headsOf(t testing.TB, l *Log, storeID string) []versionlog.Version {
	t.Helper()
	var heads []versionlog.Version
	for v, err := range l.Heads(t.Context(), storeID, "/", "") {
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, v)
	}
	return heads
}

// TestSnapshot opens a log again and again on what the one before left on disk,
// which may be up to date, behind, damaged or of another history.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	const (
		walks  = true // over the table
		spared = false
	)
	for name, test := range map[string]struct {
		between func(t *testing.T, b *backend, s versionlog.Store, path string)
		want    bool // whether the heads are read from the table
	}{
		"up to date": {func(*testing.T, *backend, versionlog.Store, string) {}, spared},
		"behind": {func(t *testing.T, b *backend, s versionlog.Store, _ string) {
			other := b.open(t, nil, nil)
			write(t, other, s.ID, "/a", "new")
			write(t, other, s.ID, "/z", "1")
			_, err := other.Commit(t.Context(), s.ID, proposal(
				versionlog.Change{Action: versionlog.Rename, Path: "/b", To: "/y", Expect: versionlog.ExpectAny()}))
			if err != nil {
				t.Fatal(err)
			}
		}, spared},
		"damaged": {func(t *testing.T, _ *backend, _ versionlog.Store, path string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			data[len(data)/2] ^= 1
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}, walks},
		"cut short": {func(t *testing.T, _ *backend, _ versionlog.Store, path string) {
			if err := os.Truncate(path, 20); err != nil {
				t.Fatal(err)
			}
		}, walks},
		"of another history": {func(t *testing.T, b *backend, s versionlog.Store, path string) {
			l := b.open(t, nil, &Options{SnapshotDir: filepath.Dir(filepath.Dir(path))})
			headsOf(t, l, s.ID)
			closeOnce(t, l)
			view := l.store(s.ID).view
			view.meta.tip.Digest = cas.Sum([]byte("another"))
			l.store(s.ID).savedAt = 0
			l.store(s.ID).saveSnapshot()
		}, walks},
		"behind, of another history": {func(t *testing.T, b *backend, s versionlog.Store, path string) {
			l := b.open(t, nil, &Options{SnapshotDir: filepath.Dir(filepath.Dir(path))})
			headsOf(t, l, s.ID)
			closeOnce(t, l)
			l.store(s.ID).view.meta.tip.Digest = cas.Sum([]byte("another"))
			l.store(s.ID).savedAt = 0
			l.store(s.ID).saveSnapshot()
			write(t, b.open(t, nil, nil), s.ID, "/a", "since")
		}, walks},
		"ahead": {func(t *testing.T, b *backend, s versionlog.Store, path string) {
			l := b.open(t, nil, &Options{SnapshotDir: filepath.Dir(filepath.Dir(path))})
			headsOf(t, l, s.ID)
			closeOnce(t, l)
			l.store(s.ID).view.meta.tip.Seq += 5 // as after a table was restored from a backup
			l.store(s.ID).saveSnapshot()
		}, walks},
		"gone": {func(t *testing.T, _ *backend, _ versionlog.Store, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, walks},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, awstest.DynamoDB(t))
			creator := b.open(t, nil, nil)
			s := addStore(t, creator, "notes")
			for _, path := range []string{"/a", "/b", "/d/c"} {
				write(t, creator, s.ID, path, "1")
			}
			dir := filepath.Join(t.TempDir(), "heads")
			first := b.open(t, nil, &Options{SnapshotDir: dir, ReadOnly: true})
			headsOf(t, first, s.ID)
			closeOnce(t, first)
			path := first.store(s.ID).snapshotPath()
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Fatalf("the snapshot: %v, %v", info, err)
			}
			if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
				t.Fatalf("its directory: %v, %v", info, err)
			}

			test.between(t, b, s, path)
			transport := newSites()
			l := b.open(t, transport, &Options{SnapshotDir: dir})
			got := headsOf(t, l, s.ID)
			if diff := cmp.Diff(headsOf(t, b.open(t, nil, nil), s.ID), got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			if walked := transport.Calls()["Query /"] > 0; walked != test.want {
				t.Errorf("the heads were read from the table: %v, want %v; requests: %v", walked, test.want, transport.Calls())
			}
			write(t, l, s.ID, "/a", "after") // upon what it resumed from
			write(t, l, s.ID, "/new/one", "after")
			closeOnce(t, l)
			if found := b.check(t, s.ID); found != nil {
				t.Errorf("Check reports %q", found)
			}
		})
	}
}
