package sqlitelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/dircas"
	"mneme/cas/memcas"
	"mneme/cas/sizecas"
	"mneme/internal/sqlite"
	"mneme/versionlog"
)

func redaction(ids ...string) *versionlog.Proposal {
	return &versionlog.Proposal{Key: versionlog.NewKey(), Message: "because", Event: versionlog.StoreRedacted(ids...)}
}

func redact(t testing.TB, l *Log, storeID string, ids ...string) {
	t.Helper()
	if _, err := l.Commit(t.Context(), storeID, redaction(ids...)); err != nil {
		t.Fatal(err)
	}
}

// purged purges, and makes sure that nothing is left.
func purged(t testing.TB, l *Log, storeID string) {
	t.Helper()
	places, err := l.Purge(t.Context(), storeID, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		if p.Why != "" {
			t.Errorf("%s: %s", p.Place, p.Why)
		}
	}
	if l.hasTraces() {
		t.Error("something is left to do")
	}
}

// wantNoTrace looks for texts in all files of a directory, and in their names.
func wantNoTrace(t testing.TB, dir string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if in := tracesOf(t, dir, text); in != "" {
			t.Errorf("%.60q is still in %s", text, in)
		}
	}
}

func tracesOf(t testing.TB, dir, text string) (in string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && (bytes.Contains(data, []byte(text)) || strings.Contains(path, text)) {
			in += filepath.Base(path) + " "
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// tracesOfVersion are the texts that a redaction takes out of the files: of a content only
// what no other has.
func tracesOfVersion(v *versionlog.Version, seal *versionlog.Seal) []string {
	return []string{string(v.Digest[:]), v.Digest.String(), fmt.Sprintf("%x", seal.Salt)}
}

// TestEraseAtRandom erases versions of random histories, whose contents are small and
// large, alike, packed and whole, and whose records are in frames. All other versions stay
// what they are to the byte, and nothing of those that were erased is in any file.
func TestEraseAtRandom(t *testing.T) {
	for seed := range 3 {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { eraseAtRandom(t, rand.New(rand.NewPCG(uint64(seed), 7))) })
	}
}

func eraseAtRandom(t *testing.T, r *rand.Rand) {
	dir := t.TempDir()
	files, err := dircas.Open(filepath.Join(dir, "files"), nil)
	if err != nil {
		t.Fatal(err)
	}
	opts := &Options{Files: func(string) (Files, error) { return files, nil }}
	logs := []*Log{openTest(t, dir, opts), openTest(t, dir, opts)}
	s := addStore(t, logs[0], "s")
	contents := map[cas.Digest][]byte{}
	var past [][]byte
	texts := map[string][]byte{}
	for range 70 {
		l := logs[r.IntN(len(logs))]
		path := []string{"/a", "/b", "/secret-c", "/secret-d/e"}[r.IntN(4)]
		change := versionlog.Change{Action: versionlog.Put, Path: path, Expect: versionlog.ExpectAny()}
		switch n := r.IntN(20); {
		case n < 10:
			texts[path] = edited(r, texts[path])
			change.Content = texts[path]
		case n < 12 && len(past) > 0:
			change.Content = past[r.IntN(len(past))]
		case n < 13:
			change.Content = bytes.Repeat(words(r, 1000+r.IntN(1000)), MaxContent/1000+1)
		case n < 15:
			change.Action = versionlog.Remove
		case n < 17:
			change.Action, change.To = versionlog.Rename, fmt.Sprintf("/secret-%d", r.IntN(5))
		default:
			if _, err := l.packer.step(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if change.Content != nil {
			past = append(past, change.Content)
			change.Digest, change.Size = cas.Sum(change.Content), int64(len(change.Content))
			contents[change.Digest] = change.Content
			if len(change.Content) > MaxContent {
				if _, err := files.Put(t.Context(), change.Content); err != nil {
					t.Fatal(err)
				}
				change.Content = nil
			}
		}
		_, err := l.Commit(t.Context(), s.ID, &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{change}})
		if err != nil && !isRefusal(err) {
			t.Fatal(err)
		}
	}
	for range 3 {
		eraseSome(t, r, logs[r.IntN(len(logs))], s.ID, dir, contents)
		packAll(t, logs[0])
		checkErased(t, logs[0], s.ID, contents)
	}
}

// eraseSome erases a third of the versions that are no heads.
func eraseSome(t *testing.T, r *rand.Rand, l *Log, storeID, dir string, contents map[cas.Digest][]byte) {
	t.Helper()
	var ids, traces []string
	left := map[cas.Digest]bool{}
	all, err := commitsOf(t, l, storeID, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		for i := range c.Versions {
			v := &c.Versions[i]
			newest, err := l.Newest(t.Context(), storeID, v.MemoryID)
			if err != nil {
				t.Fatal(err)
			}
			if v.Redacted() || v.Live() && newest.ID == v.ID || r.IntN(3) > 0 {
				left[v.Digest] = true
				continue
			}
			ids = append(ids, v.ID)
			traces = append(traces, tracesOfVersion(v, &c.Seals[i])...)
		}
	}
	if len(ids) == 0 {
		return
	}
	redact(t, l, storeID, ids...)
	purged(t, l, storeID)
	for d := range contents {
		if !left[d] {
			delete(contents, d)
		}
	}
	for _, trace := range traces {
		kept := false
		for d := range left {
			kept = kept || !d.IsZero() && (trace == string(d[:]) || trace == d.String())
		}
		if !kept && trace != string(make([]byte, 32)) && trace != (cas.Digest{}).String() {
			wantNoTrace(t, dir, trace)
		}
	}
}

// checkErased makes sure that what is left of a history is sound, and its contents what
// they were.
func checkErased(t *testing.T, l *Log, storeID string, contents map[cas.Digest][]byte) {
	t.Helper()
	checkPacked(t, l, storeID)
	files, err := l.filesOf(storeID)
	if err != nil {
		t.Fatal(err)
	}
	blobs := sizecas.New(l.Blobs(storeID), MaxContent, files.(sizecas.Backend))
	all, err := commitsOf(t, l, storeID, 0)
	if err != nil {
		t.Fatal(err)
	}
	needed := map[cas.Digest]bool{}
	for _, c := range all {
		for i := range c.Versions {
			if d := c.Versions[i].Digest; !d.IsZero() {
				needed[d] = true
				if data, err := blobs.Get(t.Context(), d); err != nil || !bytes.Equal(data, contents[d]) {
					t.Fatalf("content of commit %d: %d bytes, %v; want %d", c.Seq, len(data), err, len(contents[d]))
				}
			}
		}
	}
	for d, err := range blobs.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if _, was := contents[d]; !needed[d] && !was {
			t.Errorf("content %v is there, and no version has it", d)
		}
	}
}

// TestEraseTraces: nothing of small contents, names and rows stays in free pages, gaps of pages
// and the write-ahead log, whichever other process has the database open.
func TestEraseTraces(t *testing.T) {
	dir := t.TempDir()
	l, other := openTest(t, dir, nil), openTest(t, dir, nil)
	s := addStore(t, l, "s")
	var ids []string
	for i := range 40 { // so that pages are split, and rows move
		c := put(t, l, s.ID, fmt.Sprintf("/canary name %d", i), fmt.Sprint("x", i))
		ids = append(ids, c.Versions[0].ID)
		content := []byte(strings.Repeat("canary content ", 1+i))
		d, err := l.Blobs(s.ID).Put(t.Context(), content)
		if err != nil {
			t.Fatal(err)
		}
		p := putProposal(fmt.Sprintf("/canary name %d", i), string(content))
		if c, err = l.Commit(t.Context(), s.ID, p); err != nil || c.Versions[0].Digest != d {
			t.Fatal(err)
		}
		ids = append(ids, c.Versions[0].ID)
		rename := versionlog.Change{Action: versionlog.Rename, Path: p.Changes[0].Path, To: fmt.Sprintf("/plain/%d", i), Expect: versionlog.ExpectAny()}
		if c, err = other.Commit(t.Context(), s.ID, &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{rename}}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.Versions[0].ID)
		if _, err := other.Commit(t.Context(), s.ID, withContent(rename.To, "plain", versionlog.ExpectAny())); err != nil {
			t.Fatal(err)
		}
	}
	if tracesOf(t, dir, "canary") == "" {
		t.Fatal("the test looks for nothing")
	}
	redact(t, l, s.ID, ids...)
	purged(t, l, s.ID)
	wantNoTrace(t, dir, "canary")
	checkPacked(t, other, s.ID)
	if purged, err := l.Purge(t.Context(), s.ID, nil); err != nil || purged != nil {
		t.Errorf("purged again: %v, %v", purged, err)
	}
}

// TestEraseBesideReader: while a process reads from the write-ahead log as it was, the receipt
// says so, and the next purge continues.
func TestEraseBesideReader(t *testing.T) {
	patience := purgePatience
	purgePatience = time.Millisecond
	t.Cleanup(func() { purgePatience = patience })
	dir := t.TempDir()
	l, other := openTest(t, dir, nil), openTest(t, dir, nil)
	s := addStore(t, l, "s")
	first := put(t, l, s.ID, "/canary", "1")
	rename := versionlog.Change{Action: versionlog.Rename, Path: "/canary", To: "/b", Expect: versionlog.ExpectAny()}
	second, err := l.Commit(t.Context(), s.ID, &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{rename}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, l, s.ID, "/b", "2")
	err = other.db.With(t.Context(), func(c *sqlite.Conn) error {
		return c.Reading(func() error {
			if err := c.Each(`SELECT count(*) FROM versions`, func(*sqlite.Row) error { return nil }); err != nil {
				return err
			}
			redact(t, l, s.ID, first.Versions[0].ID, second.Versions[0].ID)
			places, err := l.Purge(t.Context(), s.ID, nil)
			if err != nil || len(places) == 0 || places[len(places)-1].Why == "" || !l.hasTraces() {
				t.Errorf("beside a reader: %+v, %v", places, err)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	purged(t, l, s.ID)
	wantNoTrace(t, dir, "canary")
}

// TestEraseCutOff: a process that ends right after the transaction leaves the rest to the
// next one that has the log open.
func TestEraseCutOff(t *testing.T) {
	dir := t.TempDir()
	files, err := dircas.Open(filepath.Join(dir, "files"), nil)
	if err != nil {
		t.Fatal(err)
	}
	opts := &Options{Files: func(string) (Files, error) { return files, nil }}
	l := openTest(t, dir, opts)
	s := addStore(t, l, "s")
	large := strings.Repeat("canary content ", MaxContent/10)
	if _, err := files.Put(t.Context(), []byte(large)); err != nil {
		t.Fatal(err)
	}
	c := put(t, l, s.ID, "/a", large)
	if _, err := l.Commit(t.Context(), s.ID, withContent("/a", "2", versionlog.ExpectAny())); err != nil {
		t.Fatal(err)
	}
	redact(t, l, s.ID, c.Versions[0].ID)
	if tracesOf(t, dir, "canary") == "" {
		t.Fatal("nothing was left to do")
	}
	checkPacked(t, l, s.ID)
	closeOnce(t, l)
	l = openTest(t, dir, opts)
	l.purgeLeft(t.Context())
	if l.hasTraces() {
		t.Error("something is left to do")
	}
	wantNoTrace(t, dir, "canary")
	checkPacked(t, l, s.ID)
}

// TestEraseDuringPurge: a redaction that comes while another one is being purged is not
// taken for purged.
func TestEraseDuringPurge(t *testing.T) {
	dir := t.TempDir()
	l, other := openTest(t, dir, nil), openTest(t, dir, nil)
	s := addStore(t, l, "s")
	first, second := put(t, l, s.ID, "/a", "1"), put(t, l, s.ID, "/a", "2")
	put(t, l, s.ID, "/a", "3")
	redact(t, l, s.ID, first.Versions[0].ID)
	noted, err := l.root.ReadFile(purgingName)
	if err != nil {
		t.Fatal(err)
	}
	redact(t, other, s.ID, second.Versions[0].ID)
	if err := l.leftNoTraces(t.Context(), noted); err != nil || !l.hasTraces() {
		t.Errorf("the note of the other one is gone: %v", err)
	}
	purged(t, other, s.ID)
	purged(t, l, s.ID)
}

// stuckFiles cannot be removed for a while.
type stuckFiles struct {
	*memcas.Store
	err error
}

func (f *stuckFiles) Delete(ctx context.Context, d cas.Digest) error {
	if f.err != nil {
		return f.err
	}
	return f.Store.Delete(ctx, d)
}

// TestEraseStuck: what cannot be removed is told of, stays noted, and goes the next time;
// the history is sound meanwhile.
func TestEraseStuck(t *testing.T) {
	files := &stuckFiles{memcas.New(), errors.New("stuck")}
	l := openTest(t, t.TempDir(), &Options{Files: func(string) (Files, error) { return files, nil }})
	s := addStore(t, l, "s")
	large := strings.Repeat("content ", MaxContent/4)
	if _, err := files.Put(t.Context(), []byte(large)); err != nil {
		t.Fatal(err)
	}
	c := put(t, l, s.ID, "/a", large)
	if _, err := l.Commit(t.Context(), s.ID, withContent("/a", "2", versionlog.ExpectAny())); err != nil {
		t.Fatal(err)
	}
	redact(t, l, s.ID, c.Versions[0].ID)
	for range 2 {
		places, err := l.Purge(t.Context(), s.ID, nil)
		if err != nil || len(places) != 3 || places[0].Why != "stuck" || places[1].Why != "" || !l.hasTraces() {
			t.Errorf("places are %+v, %v", places, err)
		}
		checkPacked(t, l, s.ID)
	}
	files.err = nil
	purged(t, l, s.ID)
	if there, err := files.Has(t.Context(), cas.Sum([]byte(large))); there || err != nil {
		t.Errorf("the file is there: %v", err)
	}
}

// TestErasedBeforeCommit: a commit whose content was erased after it had been stored does
// not come to be; one that came before keeps it.
func TestErasedBeforeCommit(t *testing.T) {
	files := memcas.New()
	l := openTest(t, t.TempDir(), &Options{Files: func(string) (Files, error) { return files, nil }})
	s := addStore(t, l, "s")
	large := strings.Repeat("content ", MaxContent/4)
	store := func() {
		t.Helper()
		if _, err := files.Put(t.Context(), []byte(large)); err != nil {
			t.Fatal(err)
		}
	}
	replace := func() *versionlog.Commit {
		t.Helper()
		store()
		c := put(t, l, s.ID, "/a", large)
		if _, err := l.Commit(t.Context(), s.ID, withContent("/a", "2", versionlog.ExpectAny())); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := replace()
	store() // for a commit to come, and nothing is written
	redact(t, l, s.ID, c.Versions[0].ID)
	purged(t, l, s.ID)
	if _, err := l.Commit(t.Context(), s.ID, putProposal("/b", large)); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("a commit without its content: %v", err)
	}
	c = replace()
	redact(t, l, s.ID, c.Versions[0].ID)
	put(t, l, s.ID, "/b", large) // before the file goes
	purged(t, l, s.ID)
	checkPacked(t, l, s.ID)
}

// TestEraseDamaged: where a record cannot be read nothing is erased.
func TestEraseDamaged(t *testing.T) {
	l := openTest(t, t.TempDir(), nil)
	s := addStore(t, l, "s")
	first, second := put(t, l, s.ID, "/a", "1"), put(t, l, s.ID, "/a", "2")
	put(t, l, s.ID, "/a", "3")
	err := l.writer.transaction(t.Context(), func(context.Context) error {
		return l.writer.run(`UPDATE commits SET record = x'7b' WHERE seq = 2`)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Commit(t.Context(), s.ID, redaction(first.Versions[0].ID, second.Versions[0].ID)); !errors.Is(err, versionlog.ErrCorrupt) {
		t.Errorf("erased with a damaged record: %v", err)
	}
	if v, err := l.Version(t.Context(), s.ID, first.Versions[0].ID); err != nil || v.Redacted() {
		t.Errorf("erased by halves: %+v, %v", v, err)
	}
}

// TestImportErasedBetween: a memory is live again from its next version on after one that is erased,
// also in a log that never had that one.
func TestImportErasedBetween(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	second := put(t, l, s.ID, "/a", "2")
	put(t, l, s.ID, "/a", "3")
	redact(t, l, s.ID, second.Versions[0].ID)
	commits, err := commitsOf(t, l, s.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	replica := openTest(t, t.TempDir(), nil)
	if err := replica.CreateStore(t.Context(), versionlog.Store{ID: s.ID, Slug: s.Slug, Replica: true}); err != nil {
		t.Fatal(err)
	}
	err = versionlog.Import(t.Context(), replica, s.ID, func(yield func(*versionlog.Commit, error) bool) {
		for _, c := range commits {
			if !yield(c, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if head, err := replica.Head(t.Context(), s.ID, "/a"); err != nil || head.Digest != cas.Sum([]byte("3")) {
		t.Errorf("the head is %+v, %v", head, err)
	}
	if err := replica.Check(t.Context(), s.ID, func(p Problem) { t.Errorf("found: %+v", p) }); err != nil {
		t.Error(err)
	}
}
