package dynamolog

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mneme/cas"
	"mneme/internal/testing/awstest"
	"mneme/versionlog"
	"mneme/versionlog/snapshot"

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
		"of an earlier mneme": {func(t *testing.T, _ *backend, _ versionlog.Store, path string) {
			if err := os.WriteFile(path, []byte("\x2c\x7f\x03\x01\x01\x08snapshot"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, walks},
		"of a later mneme": {func(t *testing.T, _ *backend, _ versionlog.Store, path string) {
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			files := zip.NewWriter(f)
			err = intoZip{files}.Put(t.Context(), "manifest", []byte("mneme snapshot 2 and more\n"))
			if err := errors.Join(err, files.Close(), f.Close()); err != nil {
				t.Fatal(err)
			}
		}, walks},
		"of another store": {func(t *testing.T, b *backend, s versionlog.Store, path string) {
			l := b.open(t, nil, &Options{SnapshotDir: filepath.Dir(filepath.Dir(path))})
			other := addStore(t, l, "other")
			write(t, l, other.ID, "/other", "1")
			headsOf(t, l, other.ID)
			closeOnce(t, l)
			if err := os.Rename(l.store(other.ID).snapshotPath(), path); err != nil {
				t.Fatal(err)
			}
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
			saved, err := l.store(s.ID).openSnapshot(t.Context())
			if tip := l.store(s.ID).view.meta.tip; err != nil || saved.Check(t.Context()) != nil || saved.Tip != tip {
				t.Errorf("it left a snapshot of %+v, %v, want %+v", saved, err, tip)
			}
		})
	}
}

// TestSnapshotBits flips a bit of every byte of a snapshot's file: what is read is an error,
// or what was written.
func TestSnapshotBits(t *testing.T) {
	t.Parallel()
	s := (&Log{bounds: defaultBounds, snapshots: t.TempDir(), stores: map[string]*store{}, life: t.Context()}).store("memstore_1")
	var heads []*versionlog.Version
	for i := range uint64(3) {
		heads = append(heads, &versionlog.Version{ID: fmt.Sprint("memver_", i), Seq: i + 1, Op: versionlog.OpCreated, Path: fmt.Sprint("/notes-", i)})
	}
	at := snapshot.Point{StoreID: s.id, Creation: "1", Tip: versionlog.Tip{Seq: 3, Digest: cas.Sum(nil)}}
	if err := s.writeSnapshot(at, heads); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(s.snapshotPath())
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for i := range whole {
		data := bytes.Clone(whole)
		data[i] ^= 1 << (i % 8)
		if err := os.WriteFile(s.snapshotPath(), data, 0o600); err != nil {
			t.Fatal(err)
		}
		v, err := s.readSnapshot(t.Context())
		if err != nil {
			damaged++
			continue
		}
		if diff := cmp.Diff(heads, v.all()); diff != "" || v.meta.tip != at.Tip || v.meta.creation != at.Creation {
			t.Errorf("bit of byte %d: want -, got +:\n%s", i, diff)
		}
	}
	if damaged < len(whole)/2 {
		t.Errorf("%d of %d bytes matter", damaged, len(whole))
	}
}

// TestSnapshotOfLittle: of a view that has not counted, the snapshot tells no totals; and
// one with more heads than a view may have is not read, nor one of another store.
func TestSnapshotOfLittle(t *testing.T) {
	t.Parallel()
	s := (&Log{bounds: defaultBounds, snapshots: t.TempDir(), stores: map[string]*store{}, life: t.Context()}).store("memstore_1")
	tip := versionlog.Tip{Seq: 3, Digest: cas.Sum(nil), Totals: versionlog.Totals{Bytes: 1}}
	s.view = newView(&meta{creation: "1", tip: tip, uncounted: true}, s.log.bounds)
	for _, path := range []string{"/a", "/b"} {
		s.view.known[path] = fact{version: &versionlog.Version{Path: path}}
	}
	s.view.knowAll()
	s.saveSnapshot()
	saved, err := s.openSnapshot(t.Context())
	if tip.Totals = (versionlog.Totals{}); err != nil || saved.Tip != tip {
		t.Errorf("the snapshot is of %+v, %v, want %+v", saved, err, tip)
	}
	s.sawRedactedLocked(tip.Seq) // and it is of that
	s.log.work.Wait()
	s.log.bounds.heads = 2
	if _, err := s.readSnapshot(t.Context()); err != nil {
		t.Error(err)
	}
	s.log.bounds.heads = 1
	if v, err := s.readSnapshot(t.Context()); err == nil {
		t.Errorf("%d heads were read, at most 1 may be known", len(v.known))
	}
	other := s.log.store("memstore_2")
	if err := os.Rename(s.snapshotPath(), other.snapshotPath()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.openSnapshot(t.Context()); err == nil {
		t.Error("a snapshot of another store was opened")
	}
}

// TestSnapshotErased holds that no snapshot stays of a commit before a redaction, also where
// it is being written when the process hears of that.
func TestSnapshotErased(t *testing.T) {
	t.Parallel()
	s := (&Log{bounds: defaultBounds, snapshots: t.TempDir(), stores: map[string]*store{}, life: t.Context()}).store("memstore_1")
	for _, late := range []bool{false, true} {
		s.view, s.savedAt, s.redacted = newView(&meta{creation: "1", tip: versionlog.Tip{Seq: 3, Digest: cas.Sum(nil)}}, s.log.bounds), 0, 0
		s.view.knowAll()
		if !late {
			s.saveSnapshot()
			if _, err := s.openSnapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.sawRedactedLocked(4)
		s.log.work.Wait()
		if late {
			s.saveSnapshot()
		}
		if _, err := os.Stat(s.snapshotPath()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("written late %v: %v", late, err)
		}
	}
}

// TestForgetOnce holds that the copies of contents go when a process finds a redaction that no
// other one on the machine has had them go for, and once where that succeeds.
func TestForgetOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	forgets := func(seq uint64, err error) (forgot bool) {
		l := &Log{bounds: defaultBounds, snapshots: dir, stores: map[string]*store{}, logger: slog.New(slog.DiscardHandler)}
		l.forget = func(string) error { forgot = true; return err }
		l.store("memstore_1").sawRedactedLocked(seq)
		l.work.Wait()
		return forgot
	}
	failed := errors.New("the disk is read-only")
	got := []bool{forgets(4, failed), forgets(4, nil), forgets(4, nil), forgets(3, nil), forgets(12, nil), forgets(12, nil)}
	if want := []bool{true, true, false, false, true, false}; !slices.Equal(got, want) {
		t.Errorf("the copies went %v, want %v", got, want)
	}
}

// TestAtSnapshot asks a log that has a snapshot of the third of six commits for the past.
// The snapshots have one head of the three: so it is seen which are believed.
func TestAtSnapshot(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, &Options{SnapshotDir: t.TempDir()})
	s := addStore(t, l, "notes")
	var third *versionlog.Commit
	for i := range 3 {
		third = write(t, l, s.ID, fmt.Sprint("/d/", i), "1")
	}
	all := headsOf(t, l, s.ID)
	write(t, l, s.ID, "/d/1", "2")
	for _, change := range []versionlog.Change{
		{Action: versionlog.Rename, Path: "/d/2", To: "/e", Expect: versionlog.ExpectAny()},
		{Action: versionlog.Remove, Path: "/d/0", Expect: versionlog.ExpectAny()},
	} {
		if _, err := l.Commit(t.Context(), s.ID, proposal(change)); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		digest versionlog.Digest
		damage bool
		want   [7][]string // by sequence number
	}{
		"of this history": {third.Digest, false, [7][]string{
			nil, {"/d/0"}, {"/d/0", "/d/1"}, {"/d/0"}, {"/d/0", "/d/1"}, {"/d/0", "/d/1", "/e"}, {"/d/1", "/e"}}},
		"of another history": {cas.Sum(nil), false, [7][]string{
			nil, {"/d/0"}, {"/d/0", "/d/1"}, {"/d/0", "/d/1", "/d/2"}, {"/d/0", "/d/1", "/d/2"}, {"/d/0", "/d/1", "/e"}, {"/d/1", "/e"}}},
		"damaged": {third.Digest, true, [7][]string{
			nil, {"/d/0"}, {"/d/0", "/d/1"}, {"/d/0", "/d/1", "/d/2"}, {"/d/0", "/d/1", "/d/2"}, {"/d/0", "/d/1", "/e"}, {"/d/1", "/e"}}},
	} {
		at := snapshot.Point{StoreID: s.ID, Tip: versionlog.Tip{Seq: 3, Digest: test.digest}}
		if err := l.store(s.ID).writeSnapshot(at, []*versionlog.Version{&all[0]}); err != nil {
			t.Fatal(err)
		}
		if test.damage {
			data, err := os.ReadFile(l.store(s.ID).snapshotPath())
			if err != nil {
				t.Fatal(err)
			}
			data[bytes.Index(data, []byte("pages/"))+100] ^= 1
			if err := os.WriteFile(l.store(s.ID).snapshotPath(), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for seq, want := range test.want {
			state, err := l.At(t.Context(), s.ID, uint64(seq))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for v, err := range state.Heads(t.Context(), "/", "") {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, v.Path)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: at %d: want -, got +:\n%s", name, seq, diff)
			}
		}
		if _, err := l.At(t.Context(), s.ID, 7); !errors.Is(err, versionlog.ErrNotFound) {
			t.Errorf("%s: behind the end: %v", name, err)
		}
	}
}
