package sqlitelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mneme/cas"
	"mneme/cas/dircas"
	"mneme/cas/memcas"
	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// versionsOf commits so many versions of a file and returns their contents.
func versionsOf(t testing.TB, l *Log, storeID, path string, n int) (all []string) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), 3))
	text := words(r, 3000)
	for range n {
		text = edited(r, text)
		all = append(all, string(text))
		if _, err := l.Commit(t.Context(), storeID, withContent(path, string(text), versionlog.ExpectAny())); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// rowOf returns the row of a content, which must be packed.
func rowOf(t testing.TB, l *Log, storeID, content string) *packed {
	t.Helper()
	num, _, err := l.Blobs(storeID).ready(t.Context(), packedFormat)
	if err != nil {
		t.Fatal(err)
	}
	c := &contents{source: l.db, store: num}
	row, err := c.row(t.Context(), cas.Sum([]byte(content)))
	if err != nil || row == nil || row.frame == nil {
		t.Fatalf("row is %+v, %v; want one with a frame", row, err)
	}
	return row
}

// TestDeepChain: the place with the longest chain takes as many frames as there may be.
func TestDeepChain(t *testing.T) {
	deepest := place(0)
	for p := place(1); p < treeSize; p++ {
		links := 1 // of the root to a head
		for at := p; at != 0; at = at.base() {
			links++
		}
		if links > maxChain {
			t.Fatalf("place %d takes %d frames", p, links)
		}
		if links == maxChain {
			deepest = p
		}
	}
	if deepest == 0 {
		t.Errorf("no chain has %d frames", maxChain)
	}
}

// TestRemoveContent: what leans on a content that is removed for good stays readable, and
// the content does not come back by a slice that was planned before.
func TestRemoveContent(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	all := versionsOf(t, l, s.ID, "/a", 20)
	planned, err := plan(t.Context(), l.db, 1, nil, cursor{})
	if err != nil || planned.empty() {
		t.Fatalf("%+v, %v", planned, err)
	}
	b := l.Blobs(s.ID)
	if err := b.Delete(t.Context(), cas.Sum([]byte(all[3]))); err != nil {
		t.Fatal(err)
	}
	if err := l.apply(t.Context(), planned); !errors.Is(err, errMoved) {
		t.Errorf("a slice from before the removal: %v", err)
	}
	packAll(t, l)
	for _, i := range []int{0, 4, 16, 19} { // a root, one that others lean on, and a head
		if err := b.Delete(t.Context(), cas.Sum([]byte(all[i]))); err != nil {
			t.Fatal(err)
		}
	}
	for i, content := range all {
		if slices.Contains([]int{0, 3, 4, 16, 19}, i) {
			wantNoBlob(t, b, content)
		} else {
			wantBlob(t, b, content)
		}
	}
}

// TestDamagedFrame: a frame that does not decode is damage, and so is all that leans on it, until
// its bytes are put back.
func TestDamagedFrame(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	all := versionsOf(t, l, s.ID, "/a", 4)
	packAll(t, l)
	b := l.Blobs(s.ID)
	row := rowOf(t, l, s.ID, all[1])
	for _, damage := range []string{`data = x'00'`, `data = x'28b52ffd'`, `base = 4711`, `base = id`} {
		change(t, dir, fmt.Sprintf(`UPDATE packed SET %s WHERE id = %d`, damage, row.id))
		for _, content := range all[1:3] {
			if _, err := b.Get(t.Context(), cas.Sum([]byte(content))); !errors.Is(err, cas.ErrCorrupt) {
				t.Errorf("%s: error is %v", damage, err)
			}
		}
		wantBlob(t, b, all[0])
		wantBlob(t, b, all[3])
	}
	// A later content is packed against something else.
	change(t, dir, fmt.Sprintf(`UPDATE packed SET place = 3 WHERE id IN (%d, %d)`, row.id, rowOf(t, l, s.ID, all[2]).id))
	commitContent(t, l, s.ID, "/a", all[3]+" and more")
	packAll(t, l)
	wantBlob(t, b, all[3])
	change(t, dir, fmt.Sprintf(`UPDATE packed SET place = 1 WHERE id = %d`, row.id))
	if _, err := b.Put(t.Context(), []byte(all[1])); err != nil {
		t.Fatal(err)
	}
	wantBlob(t, b, all[1])
	wantBlob(t, b, all[2])
	// The copy that was put back is not taken for the content of the frame.
	if _, err := l.Commit(t.Context(), s.ID, withContent("/a", all[1], versionlog.ExpectAny())); err != nil {
		t.Fatal(err)
	}
	commitContent(t, l, s.ID, "/a", "short")
	packAll(t, l)
	wantBlob(t, b, all[1])
}

// TestPackOnFullDisk: packing that finds no room changes nothing.
func TestPackOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	all := versionsOf(t, l, s.ID, "/a", 10)
	limit := func(pages int) {
		if err := l.writer.conn.Script(fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	change(t, dir, `PRAGMA wal_checkpoint(TRUNCATE)`)
	limit(1)
	_, err := l.packer.step(t.Context(), 1)
	if err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error is %v", err)
	}
	for _, content := range all {
		wantBlob(t, l.Blobs(s.ID), content)
	}
	limit(1 << 30)
	packAll(t, l)
	checkPacked(t, l, s.ID)
}

// TestPackBesideLock: another process that holds the log is not waited for, and a commit
// that comes in between is seen.
func TestPackBesideLock(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	all := versionsOf(t, l, s.ID, "/a", 5)
	p := hold(t, dir, s.ID)
	if _, err := l.packer.step(t.Context(), 1); !errors.Is(err, errLocked) {
		t.Errorf("error is %v", err)
	}
	p.in.Close()
	p.wait(t)
	planned, err := plan(t.Context(), l.db, 1, nil, cursor{})
	if err != nil {
		t.Fatal(err)
	}
	commitContent(t, l, s.ID, "/a", all[0]) // a head again
	if err := l.apply(t.Context(), planned); !errors.Is(err, errMoved) {
		t.Errorf("a slice that packs what has become a head: %v", err)
	}
	packAll(t, l)
	checkPacked(t, l, s.ID)
}

// TestUnsyncedCommitIsSeen: a transaction without a sync is there for other processes,
// and those after it are synced again.
func TestUnsyncedCommitIsSeen(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	all := versionsOf(t, l, s.ID, "/a", 3)
	if _, err := l.packer.step(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	other := openTest(t, dir, &Options{ReadOnly: true})
	wantBlob(t, other.Blobs(s.ID), all[0])
	rowOf(t, other, s.ID, all[0])
	var level int64
	err := l.writer.conn.Each(`PRAGMA synchronous`, func(row *sqlite.Row) error {
		level = row.ColumnInt64(0)
		return nil
	})
	if err != nil || level != 2 {
		t.Errorf("synchronous is %d, %v", level, err)
	}
}

// TestLargeContents: a large content of the past moves from its file into the database,
// also when the process is killed in between, and back when it is a head's again.
func TestLargeContents(t *testing.T) {
	dir := t.TempDir()
	files := memcas.New()
	l := openTest(t, dir, &Options{Files: func(string) (Files, error) { return files, nil }})
	s := addStore(t, l, "s")
	large := string(words(rand.New(rand.NewPCG(5, 5)), 200_000))
	commit := func(content string) {
		t.Helper()
		if _, err := files.Put(t.Context(), []byte(content)); err != nil {
			t.Fatal(err)
		}
		put(t, l, s.ID, "/a", content)
	}
	inFile := func(content string) bool {
		ok, err := files.Has(t.Context(), cas.Sum([]byte(content)))
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	for i := range 3 {
		commit(large + fmt.Sprint(i))
	}
	planned, err := plan(t.Context(), l.db, 1, files, cursor{})
	if err == nil {
		err = l.apply(t.Context(), planned)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !inFile(large + "0") { // as one who was killed here has left it
		t.Error("a file went before its time")
	}
	packAll(t, l)
	if inFile(large+"0") || inFile(large+"1") || !inFile(large+"2") {
		t.Error("not the right files are left")
	}
	wantBlob(t, l.Blobs(s.ID), large+"0")
	wantBlob(t, l.Blobs(s.ID), large+"1")
	put(t, l, s.ID, "/b", large+"1") // by one who knows that the bytes are there
	packAll(t, l)
	checkPacked(t, l, s.ID)
	if n := contentBytes(t, l); n > 250_000 {
		t.Errorf("contents take %d bytes", n)
	}
	if err := l.Blobs(s.ID).Delete(t.Context(), cas.Sum([]byte(large+"1"))); err != nil {
		t.Fatal(err)
	}
	wantNoBlob(t, l.Blobs(s.ID), large+"1")
	wantBlob(t, l.Blobs(s.ID), large+"0")
}

// TestPackedCopies: copies and deletions of stores take what is packed along.
func TestPackedCopies(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s, other := addStore(t, l, "s"), addStore(t, l, "other")
	all := versionsOf(t, l, s.ID, "/a", 30)
	versionsOf(t, l, other.ID, "/a", 30)
	packAll(t, l)
	to := t.TempDir()
	if err := l.CopyTo(t.Context(), to, nil); err != nil {
		t.Fatal(err)
	}
	if err := Retain(t.Context(), to, []string{s.ID}); err != nil {
		t.Fatal(err)
	}
	copied := openTest(t, to, nil)
	checkPacked(t, copied, s.ID)
	rowOf(t, copied, s.ID, all[7])
	if elsewhere, err := copied.ContentsElsewhere(t.Context(), s.ID); err != nil || len(elsewhere) != 0 {
		t.Errorf("contents elsewhere: %v, %v", elsewhere, err)
	}
	if err := l.DeleteStore(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	checkPacked(t, l, other.ID)
	for _, table := range []string{"blobs", "packed", "packing", "files_left", "commits", "versions", "paths"} {
		if left := texts(t, raw(t, dir), `SELECT count(*) FROM `+table+` WHERE store = 1`); left[0] != "0" {
			t.Errorf("%s rows are left in %s", left[0], table)
		}
	}
}

// TestSharedContent: a content that several memories have stays whole until the last of them has
// another one. Not more roots lean on it than can be encoded again together.
func TestSharedContent(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	r := rand.New(rand.NewPCG(2, 2))
	shared := strings.Repeat(string(words(r, 200)), 10)
	const memories = 3 * maxLeaning
	for i := range memories {
		path := fmt.Sprint("/", i)
		commitContent(t, l, s.ID, path, string(edited(r, []byte(shared))))
		commitContent(t, l, s.ID, path, shared)
		if i%8 == 7 {
			packAll(t, l)
		}
	}
	leaning, err := queryOne(t.Context(), l.db, leaningOn, scanMicros, 1, blobOf(cas.Sum([]byte(shared))))
	if err != nil || leaning == 0 || leaning > maxLeaning+8 { // of a slice, all may
		t.Errorf("%d lean on the content, %v", leaning, err)
	}
	for i := range memories {
		if i%16 == 1 {
			checkPacked(t, l, s.ID)
		}
		commitContent(t, l, s.ID, fmt.Sprint("/", i), fmt.Sprint("short ", i))
		packAll(t, l)
	}
	checkPacked(t, l, s.ID)
	rowOf(t, l, s.ID, shared)
}

// TestPackedNames: contents that are packed are listed once, wherever they are.
func TestPackedNames(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	all := versionsOf(t, l, s.ID, "/a", 30)
	packAll(t, l)
	commitContent(t, l, s.ID, "/a", all[4]) // whole and packed
	seen := map[cas.Digest]int{}
	for d, err := range l.Blobs(s.ID).List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		seen[d]++
	}
	for i, content := range all {
		if n := seen[cas.Sum([]byte(content))]; n != 1 {
			t.Errorf("content %d is listed %d times", i, n)
		}
		if has, err := l.Blobs(s.ID).Has(t.Context(), cas.Sum([]byte(content))); err != nil || !has {
			t.Errorf("content %d: has is %v, %v", i, has, err)
		}
	}
	if len(seen) != len(all) {
		t.Errorf("%d are listed", len(seen))
	}
}

// TestPackedQueries: what packing asks, and the history of a memory, is answered by an
// index and not by all versions of the store.
func TestPackedQueries(t *testing.T) {
	dir, _ := newLog(t)
	db := raw(t, dir)
	for text, want := range map[string]string{
		packedAt:       "SEARCH packed USING INDEX packed_content (store=? AND <expr>=?)",
		packedThere:    "SEARCH packed USING INDEX packed_content (store=? AND <expr>=?)",
		packedByID:     "SEARCH packed USING INTEGER PRIMARY KEY (rowid=?)",
		packedOn:       "SEARCH packed USING INDEX packed_base (base=?)",
		leaningOn:      "SEARCH l USING COVERING INDEX packed_base (base=?)",
		packedAfter(7): "SEARCH p USING INDEX packed_content (store=? AND <expr>>?)",
		versionsFrom:   "SEARCH versions USING PRIMARY KEY (store=? AND (seq,ord)>(?,?) AND seq<?)",
		contentAt:      "SEARCH versions USING PRIMARY KEY (store=? AND seq=? AND ord=?)",
		contentBefore:  "SEARCH versions USING INDEX versions_memory (store=? AND memory_id=? AND seq<?)",
		headOf:         "SEARCH versions USING INDEX versions_memory (store=? AND memory_id=?)",
		headsWith:      "SEARCH versions USING INDEX versions_content (store=? AND <expr>=? AND seq>?)",

		newestContentOf:  "SEARCH v USING INDEX versions_memory (store=? AND memory_id=?)",
		newestOf:         "SEARCH v USING INDEX versions_memory (store=? AND memory_id=?)",
		historyBefore(7): "SEARCH v USING INDEX versions_memory (store=? AND memory_id=? AND seq<?)",
	} {
		if plan := planOf(t, db, text); !slices.Contains(plan, want) || slices.ContainsFunc(plan, func(step string) bool { return strings.Contains(step, "TEMP B-TREE") && text != packedAfter(7) }) {
			t.Errorf("%s: the plan is %q, want %q in it", text, plan, want)
		}
	}
}

// filesBelow are the large contents of a log in a directory.
func filesBelow(dir string) func(string) (Files, error) {
	return func(id string) (Files, error) { return dircas.Open(filepath.Join(dir, "files", id), nil) }
}

// commitAndPack commits contents, every now and then large ones, and says which are in,
// until it is killed. Meanwhile the log packs.
func commitAndPack(ctx context.Context, l *Log, storeID string) error {
	files, err := l.filesOf(storeID)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	text := words(r, 3000)
	for i := 0; ; i++ {
		text = edited(r, text)
		data := text
		if i%7 == 6 {
			data = bytes.Repeat(text, 1+MaxContent/len(text))
		}
		p := withContent(fmt.Sprint("/", i%3), string(data), versionlog.ExpectAny())
		if len(data) > MaxContent {
			p.Changes[0].Content = nil
			if _, err := files.Put(ctx, data); err != nil {
				return err
			}
		}
		c, err := l.Commit(ctx, storeID, p)
		if err != nil {
			return err
		}
		fmt.Println(c.Seq)
	}
}

// TestKilledPacking: a process may be killed while it packs.
func TestKilledPacking(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, &Options{Files: filesBelow(dir)})
	s := addStore(t, l, "s")
	for round := range 4 {
		p := start(t, "crash-pack", dir, s.ID)
		last := uint64(0)
		for range 20 + 7*round {
			if _, err := fmt.Fscanln(p.out, &last); err != nil {
				t.Fatal(err, p.stderr.String())
			}
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.cmd.Wait() // it was killed
		if tip, err := l.Tip(t.Context(), s.ID); err != nil || tip.Seq < last {
			t.Fatalf("tip is %+v, %v; %d was acknowledged", tip, err, last)
		}
		checkReadable(t, l, s.ID)
	}
	packAll(t, l)
	checkPacked(t, l, s.ID)
	if left := texts(t, raw(t, dir), `SELECT count(*) FROM files_left`); left[0] != "0" {
		t.Errorf("%s files are left", left[0])
	}
}
