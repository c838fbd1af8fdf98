package witness

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mneme/cas"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

var store = versionlog.Store{
	ID: "memstore_1", Slug: "notes", Name: "Notes", Description: "what we know",
	Limits:    versionlog.Limits{MaxMemoryBytes: 100, Content: versionlog.ContentText},
	CreatedAt: time.Date(2026, 11, 25, 1, 2, 3, 0, time.UTC),
}

// newLog returns a log with the store, and n commits that no other log has.
func newLog(t *testing.T, n int) *memlog.Log {
	t.Helper()
	l := memlog.New(nil)
	if err := l.CreateStore(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	for range n {
		commit(t, l)
	}
	return l
}

func commit(t *testing.T, l versionlog.Log) *versionlog.Commit {
	t.Helper()
	key := versionlog.NewKey()
	c, err := l.Commit(t.Context(), store.ID, &versionlog.Proposal{Key: key, Changes: []versionlog.Change{{
		Action: versionlog.Put, Path: "/" + key, Digest: cas.Sum([]byte(key)), Size: 1, Expect: versionlog.ExpectAny(),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// cut is a log whose history ends early.
type cut struct {
	versionlog.Log
	seq     uint64
	corrupt bool // its records cannot be read
}

func (c cut) Tip(ctx context.Context, id string) (tip versionlog.Tip, err error) {
	for commit, err := range c.Log.Commits(ctx, id, 0) {
		if err != nil || commit.Seq > c.seq {
			return tip, err
		}
		tip.Seq, tip.Digest = commit.Seq, commit.Digest
	}
	return tip, nil
}

func (c cut) Commits(ctx context.Context, id string, after uint64) iter.Seq2[*versionlog.Commit, error] {
	if c.corrupt {
		return func(yield func(*versionlog.Commit, error) bool) { yield(nil, versionlog.ErrCorrupt) }
	}
	return c.Log.Commits(ctx, id, after)
}

// remember leaves in dir what a process remembers that has seen all of a log.
func remember(t *testing.T, dir string, l versionlog.Log) {
	t.Helper()
	w := New(dir, "file:///x")
	if err := w.Check(t.Context(), l, store); err != nil {
		t.Fatal(err)
	}
	w.Close()
}

// wantMissing checks that want is missing of a log, and that the store is refused for
// writing unless want is "".
func wantMissing(t *testing.T, dir string, l versionlog.Log, want string) {
	t.Helper()
	w := New(dir, "file:///x")
	got, err := w.Missing(t.Context(), l, store)
	if err != nil || got != want {
		t.Errorf("missing is %q, %v; want %q", got, err, want)
	}
	if err := w.Check(t.Context(), l, store); errors.Is(err, versionlog.ErrRewritten) != (want != "") || err != nil && want == "" {
		t.Errorf("Check: %v, where %q is missing", err, want)
	}
}

func TestWitness(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, 3)
	wantMissing(t, dir, cut{l, 1, false}, "") // nothing is remembered
	remember(t, dir, l)
	for range 2 { // what does not fit changes nothing
		wantMissing(t, dir, cut{l, 2, false}, "this machine has seen commit 3 of it, and it ends at 2")
		wantMissing(t, dir, cut{l, 0, false}, "this machine has seen commit 3 of it, and it ends at 0")
		wantMissing(t, dir, newLog(t, 3), "commit 3 is another than the one that this machine has seen: the history was rewritten")
		wantMissing(t, dir, newLog(t, 5), "commit 3 is another than the one that this machine has seen: the history was rewritten")
	}
	wantMissing(t, dir, l, "")
	commit(t, l)
	wantMissing(t, dir, l, "")
	wantMissing(t, dir, cut{l, 4, true}, "") // a reader of the records reports those
	if w := New(dir, "file:///other"); w.Check(t.Context(), newLog(t, 1), store) != nil {
		t.Error("the store of another library is taken for this one")
	}

	other := newLog(t, 1)
	w := New(dir, "file:///x")
	if err := w.Accept(t.Context(), other, store); err != nil {
		t.Fatal(err)
	}
	wantMissing(t, dir, other, "")
	wantMissing(t, dir, l, "commit 1 is another than the one that this machine has seen: the history was rewritten")
	w.Forget(store.ID)
	wantMissing(t, dir, l, "")
}

// TestWitnessWrites holds when what is seen gets into the file, and what never does.
func TestWitnessWrites(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, 1)
	remembered := func() uint64 {
		m, _ := New(dir, "file:///x").read(store.ID)
		return m.Seq
	}
	w := New(dir, "file:///x")
	w.every = time.Hour
	w.Saw(store.ID, 9, versionlog.Digest{9}) // it was not checked
	if err := w.Check(t.Context(), l, store); err != nil {
		t.Fatal(err)
	}
	if got := remembered(); got != 0 {
		t.Errorf("%d is written before anything is seen", got)
	}
	for i, want := range []uint64{2, 2, 2} { // the first at once, the others within the hour not
		c := commit(t, l)
		w.Saw(store.ID, c.Seq, c.Digest)
		w.Saw(store.ID, 1, versionlog.Digest{1}) // late
		if got := remembered(); got != want {
			t.Errorf("after %d commits %d is written, want %d", i+1, got, want)
		}
	}
	w.every = 0
	c := commit(t, l)
	w.Saw(store.ID, c.Seq, c.Digest)
	if got := remembered(); got != 5 {
		t.Errorf("once it is time %d is written, want 5", got)
	}
	w.every = time.Hour
	c = commit(t, l)
	w.Saw(store.ID, c.Seq, c.Digest)
	w.Saw(store.ID, 1, versionlog.Digest{1}) // late
	w.Close()
	if got := remembered(); got != 6 {
		t.Errorf("in the end %d is written, want 6", got)
	}

	slow := New(dir, "file:///x")
	if err := slow.Check(t.Context(), l, store); err != nil {
		t.Fatal(err)
	}
	commit(t, l)
	remember(t, dir, l)
	slow.Close() // which has seen less than another process
	if got := remembered(); got != 7 {
		t.Errorf("%d is written over what another process has seen", got)
	}

	rewritten := New(dir, "file:///x")
	if err := rewritten.Check(t.Context(), newLog(t, 7), store); !errors.Is(err, versionlog.ErrRewritten) {
		t.Errorf("Check: %v", err)
	}
	rewritten.Saw(store.ID, 100, versionlog.Digest{1})
	rewritten.Close()
	if got := remembered(); got != 7 {
		t.Errorf("%d is written of a history that was refused", got)
	}
	if entries, err := os.ReadDir(w.dir); err != nil || len(entries) != 1 {
		t.Errorf("left are %v, %v", entries, err)
	}
}

// TestWitnessWithoutFile checks that a damaged file is ignored, and that one that cannot be
// written stops no writer.
func TestWitnessWithoutFile(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, 3)
	remember(t, dir, l)
	w := New(dir, "file:///x")
	text, err := os.ReadFile(w.path(store.ID))
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []string{
		"", "{", string(text[:len(text)/2]), strings.Replace(string(text), `"format":1`, `"format":2`, 1), strings.Replace(string(text), `"id":"memstore_1"`, `"id":"memstore_2"`, 1),
	} {
		if err := os.WriteFile(w.path(store.ID), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if what, err := w.Missing(t.Context(), newLog(t, 1), store); what != "" || err != nil {
			t.Errorf("%q: %q, %v", damaged, what, err)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w = New(file, "file:///x")
	if err := w.Check(t.Context(), l, store); err != nil {
		t.Fatal(err)
	}
	w.Saw(store.ID, 4, versionlog.Digest{})
	w.Close()
}

func TestWitnessGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/tip-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	w := New(t.TempDir(), "file:///x")
	archived := store
	archived.ArchivedAt, archived.Epoch = store.CreatedAt.Add(time.Hour), 1
	m := w.memo(versionlog.Tip{Seq: 7, Digest: versionlog.Digest(cas.Sum(nil))}, archived)
	if _, err := w.replace(&m); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(w.path(store.ID)); err != nil || string(got) != string(text) {
		t.Errorf("a file is\n%s, %v; want\n%s", got, err, text)
	}
	earlier := strings.Replace(string(text), `,"epoch":1`, "", 1) // which had the first fields only
	if err := os.WriteFile(w.path(store.ID), []byte(earlier), 0o600); err != nil {
		t.Fatal(err)
	}
	if was, known := w.read(store.ID); !known || was.Digest != m.Digest || was.Store.Epoch != 0 || was.Store.Name != store.Name {
		t.Errorf("a file of an earlier mneme is read as %+v, %v", was, known)
	}
}

func TestChanged(t *testing.T) {
	dir, l := t.TempDir(), newLog(t, 0)
	remember(t, dir, l)
	w := New(dir, "file:///x")
	want := func(what string, change func(*versionlog.Store)) {
		t.Helper()
		s := store
		change(&s)
		changed, err := w.Changed(t.Context(), l, s)
		if got := strings.Join(changed, ", "); got != what || err != nil {
			t.Errorf("changed is %q, %v, want %q", got, err, what)
		}
	}
	archive := func(s *versionlog.Store) { s.ArchivedAt = s.CreatedAt.Add(time.Hour) }
	want("", func(*versionlog.Store) {})
	want("", archive)
	want("slug", func(s *versionlog.Store) { s.Slug = "x" })
	want("name", func(s *versionlog.Store) { s.Name = "x" })
	want("description", func(s *versionlog.Store) { s.Description = "x" })
	want("limits", func(s *versionlog.Store) { s.Limits.MaxMemoryBytes++ })
	want("name, limits", func(s *versionlog.Store) { s.Name, s.Limits.Content = "x", versionlog.ContentAny })
	want("time of creation", func(s *versionlog.Store) { s.CreatedAt = s.CreatedAt.Add(time.Second) })
	renamed := store
	renamed.Name = "x"
	if err := w.Check(t.Context(), l, renamed); err != nil { // writes go on, and it is not forgotten
		t.Fatal(err)
	}
	w.Close()
	want("name", func(s *versionlog.Store) { s.Name = "x" })
	archived := store
	archive(&archived)
	if err := w.Accept(t.Context(), l, archived); err != nil {
		t.Fatal(err)
	}
	want("", archive)
	want("time of archiving", func(*versionlog.Store) {})
}

// TestUpdated: an update that events in the history record is no change, whichever process
// made it and when. An update without an event is a change, also after an event.
func TestUpdated(t *testing.T) {
	dir, l := t.TempDir(), newLog(t, 2)
	mount, command := New(dir, "file:///x"), New(dir, "file:///x")
	check := func(w *Witness, s versionlog.Store) {
		t.Helper()
		if err := w.Check(t.Context(), l, s); err != nil {
			t.Fatal(err)
		}
	}
	changed := func(s versionlog.Store, want ...string) {
		t.Helper()
		got, err := New(dir, "file:///x").Changed(t.Context(), l, s)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("changed is %q, %v, want %q", got, err, want)
		}
	}
	check(mount, store)
	mount.Close()
	happen := func(e *versionlog.Event) versionlog.Store {
		t.Helper()
		c, err := l.Commit(t.Context(), store.ID, &versionlog.Proposal{Key: versionlog.NewKey(), Event: e})
		if err != nil {
			t.Fatal(err)
		}
		mount.Saw(store.ID, c.Seq, c.Digest)
		now, err := l.Store(t.Context(), store.ID)
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	text, size := "updated", int64(1)
	updated := happen(versionlog.StoreUpdated(versionlog.StoreUpdate{Description: &text, MaxMemoryBytes: &size}))
	changed(updated)
	commit(t, l)
	mount.Close() // which was opened before the update
	changed(updated)
	forged := updated
	forged.Name, forged.Description = "forged", "forged"
	changed(forged, "name", "description")
	check(command, updated)
	command.Close()
	changed(updated)
	archived := happen(versionlog.StoreArchived())
	changed(archived)
	check(mount, forged) // writes go on, and it is not forgotten
	mount.Close()
	changed(archived)
	archived.Slug = "forged"
	changed(archived, "slug")
}

// late is a log in which something happens just before it is asked for its tip.
type late struct {
	versionlog.Log
	happens func()
}

func (l late) Tip(ctx context.Context, id string) (versionlog.Tip, error) {
	l.happens()
	return l.Log.Tip(ctx, id)
}

// TestUpdatedMeanwhile: an update between the look at a store and the look at its history
// is no change either.
func TestUpdatedMeanwhile(t *testing.T) {
	dir, l := t.TempDir(), newLog(t, 1)
	text := "updated"
	w := New(dir, "file:///x")
	err := w.Check(t.Context(), late{l, func() {
		p := &versionlog.Proposal{Key: versionlog.NewKey(), Event: versionlog.StoreUpdated(versionlog.StoreUpdate{Description: &text})}
		if _, err := l.Commit(t.Context(), store.ID, p); err != nil {
			t.Fatal(err)
		}
	}}, store)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	now, err := l.Store(t.Context(), store.ID)
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := New(dir, "file:///x").Changed(t.Context(), l, now); err != nil || changed != nil {
		t.Errorf("changed is %q, %v, want nothing", changed, err)
	}
}

// counting counts the walks over the commits of a log.
type counting struct {
	versionlog.Log
	walks *int
}

func (c counting) Commits(ctx context.Context, id string, after uint64) iter.Seq2[*versionlog.Commit, error] {
	*c.walks++
	return c.Log.Commits(ctx, id, after)
}

// TestOpenedAgain: a process that opens a store for every commit, as a server does, neither writes
// the file each time nor reads the history. It still notices what another process has seen.
func TestOpenedAgain(t *testing.T) {
	dir, walks := t.TempDir(), 0
	l := newLog(t, 3)
	w := New(dir, "file:///x")
	w.every = time.Hour
	var written os.FileInfo
	for i := range 4 {
		if err := w.Check(t.Context(), counting{l, &walks}, store); err != nil {
			t.Fatal(err)
		}
		c := commit(t, l)
		w.Saw(store.ID, c.Seq, c.Digest)
		info, err := os.Stat(w.path(store.ID))
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && !os.SameFile(info, written) {
			t.Errorf("the file is written again at commit %d", c.Seq)
		}
		written = info
	}
	for range 2 { // other processes'
		commit(t, l)
	}
	if err := w.Check(t.Context(), counting{l, &walks}, store); err != nil {
		t.Fatal(err)
	}
	if walks > 0 {
		t.Errorf("%d walks over the history", walks)
	}
	refused := func(what string, l versionlog.Log) {
		t.Helper()
		if err := w.Check(t.Context(), l, store); !errors.Is(err, versionlog.ErrRewritten) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("another history of that length", newLog(t, 9))
	before := cut{l, 9, false}
	if err := w.Check(t.Context(), before, store); err != nil {
		t.Error(err)
	}
	refused("another history that is longer", newLog(t, 11))
	commit(t, l)
	remember(t, dir, l)
	refused("a history that another process has seen go on", before)
}
