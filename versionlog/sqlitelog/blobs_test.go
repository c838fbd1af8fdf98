package sqlitelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mneme/cas"
	"mneme/cas/castest"
	"mneme/versionlog"
)

// withContent is a proposal that carries its content.
func withContent(path, content string, expect versionlog.Expectation) *versionlog.Proposal {
	p := putProposal(path, content)
	p.Changes[0].Content, p.Changes[0].Expect = []byte(content), expect
	return p
}

func wantBlob(t *testing.T, b *Blobs, content string) {
	t.Helper()
	if got, err := b.Get(t.Context(), cas.Sum([]byte(content))); err != nil || string(got) != content {
		t.Errorf("blob of %d bytes: got %d bytes, %v", len(content), len(got), err)
	}
}

func wantNoBlob(t *testing.T, b *Blobs, content string) {
	t.Helper()
	if got, err := b.Get(t.Context(), cas.Sum([]byte(content))); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("blob %q: got %q, %v; want none", content, got, err)
	}
}

func TestBlobsConformance(t *testing.T) {
	dirs := make(map[cas.Store]string)
	open := func(t *testing.T, dir, storeID string) cas.Store {
		b := openTest(t, dir, nil).Blobs(storeID)
		dirs[b] = dir
		return b
	}
	castest.Run(t, castest.Config{
		Open: func(t *testing.T) cas.Store {
			dir, s := newLog(t)
			return open(t, dir, s.ID)
		},
		Reopen: func(t *testing.T, s cas.Store) cas.Store { return open(t, dirs[s], s.(*Blobs).storeID) },
		Corrupt: func(t *testing.T, s cas.Store, d cas.Digest, data []byte) {
			damage(t, dirs[s], d, data)
		},
	})
}

// damage makes data the stored bytes of d.
func damage(t *testing.T, dir string, d cas.Digest, data []byte) {
	t.Helper()
	change(t, dir, fmt.Sprintf("UPDATE blobs SET data = x'%x' WHERE sha256 = x'%x'", data, d[:]))
}

// TestContentComesWithCommit: a reader that sees the version has its bytes, and a commit that is
// refused leaves none.
func TestContentComesWithCommit(t *testing.T) {
	dir, s := newLog(t)
	l, other := openTest(t, dir, nil), openTest(t, dir, &Options{ReadOnly: true})
	ctx := t.Context()
	large := strings.Repeat("0123456789abcdef", MaxContent/16)
	for _, content := range []string{"two", "", large} {
		c, err := l.Commit(ctx, s.ID, withContent("/a", content, versionlog.ExpectAny()))
		if err != nil || len(c.Versions) != 1 {
			t.Fatalf("%v, %v", c, err)
		}
		wantBlob(t, other.Blobs(s.ID), content)
	}
	var conflict *versionlog.ConflictError
	if _, err := l.Commit(ctx, s.ID, withContent("/a", "refused", versionlog.ExpectAbsent())); !errors.As(err, &conflict) {
		t.Fatalf("error is %v, want a conflict", err)
	}
	wantNoBlob(t, l.Blobs(s.ID), "refused")
	wrong := withContent("/a", "three", versionlog.ExpectAny())
	wrong.Changes[0].Size++
	if _, err := l.Commit(ctx, s.ID, wrong); !errors.Is(err, versionlog.ErrInvalid) {
		t.Errorf("content of another size than the change says: %v", err)
	}
}

// TestContentRepairs: a commit that changes nothing stores its content nevertheless, where it is
// lost or damaged.
func TestContentRepairs(t *testing.T) {
	dir, s := newLog(t) // "/a" is "1", whose blob the log does not have
	l := openTest(t, dir, nil)
	b := l.Blobs(s.ID)
	again := func() {
		t.Helper()
		c, err := l.Commit(t.Context(), s.ID, withContent("/a", "1", versionlog.ExpectAny()))
		if err != nil || len(c.Versions) != 0 {
			t.Fatalf("%v, %v; want a commit without versions", c, err)
		}
		wantBlob(t, b, "1")
	}
	again()
	damage(t, dir, cas.Sum([]byte("1")), []byte("2"))
	again()
	again()
}

// TestNewestContentDamaged: bytes that are not what the version says are left to those who read blobs.
func TestNewestContentDamaged(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	c, err := l.Commit(t.Context(), s.ID, withContent("/a", "one", versionlog.ExpectAny()))
	if err != nil {
		t.Fatal(err)
	}
	want := c.Versions[0]
	for _, stored := range []string{"one", "two", ""} {
		damage(t, dir, want.Digest, []byte(stored))
		v, data, err := l.newestContent(t.Context(), s.ID, want.MemoryID)
		if err != nil || v != want || (data != nil) != (stored == "one") {
			t.Errorf("with %q stored: %v, %q, %v", stored, v, data, err)
		}
	}
}

// TestBlobsOfStores: stores share no blobs, and a store's blobs go with it.
func TestBlobsOfStores(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	other := addStore(t, l, "other")
	for _, id := range []string{s.ID, other.ID} {
		if _, err := l.Commit(t.Context(), id, withContent("/x", "the same", versionlog.ExpectAny())); err != nil {
			t.Fatal(err)
		}
	}
	mine, theirs := l.Blobs(s.ID), l.Blobs(other.ID)
	if _, err := mine.Put(t.Context(), []byte("mine")); err != nil {
		t.Fatal(err)
	}
	wantNoBlob(t, theirs, "mine")
	if err := l.DeleteStore(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	wantNoBlob(t, mine, "the same")
	wantBlob(t, theirs, "the same")
	for _, gone := range []*Blobs{mine, l.Blobs(s.ID)} {
		if _, err := gone.Put(t.Context(), []byte("too late")); !errors.Is(err, versionlog.ErrNotFound) {
			t.Errorf("Put into a deleted store: %v", err)
		}
		for d, err := range gone.List(t.Context()) {
			t.Errorf("a deleted store lists %v, %v", d, err)
		}
		if err := gone.Delete(t.Context(), cas.Sum(nil)); err != nil {
			t.Error(err)
		}
	}
}

// TestReadOnlyBlobs: they are read and not written to.
func TestReadOnlyBlobs(t *testing.T) {
	dir, s := newLog(t)
	w := openTest(t, dir, nil)
	if _, err := w.Commit(t.Context(), s.ID, withContent("/x", "kept", versionlog.ExpectAny())); err != nil {
		t.Fatal(err)
	}
	b := openTest(t, dir, &Options{ReadOnly: true}).Blobs(s.ID)
	wantBlob(t, b, "kept")
	if _, err := b.Put(t.Context(), []byte("new")); !errors.Is(err, versionlog.ErrReadOnly) {
		t.Errorf("Put: %v", err)
	}
	if err := b.Delete(t.Context(), cas.Sum([]byte("kept"))); !errors.Is(err, versionlog.ErrReadOnly) {
		t.Errorf("Delete: %v", err)
	}
}

// TestFullDiskAndContent: where there is no room for the bytes there is no
// version.
func TestFullDiskAndContent(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	limit := func(pages int) {
		if err := l.writer.conn.Script(fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	limit(1) // no more than there are
	content := strings.Repeat("long", 10_000)
	p := withContent("/a", content, versionlog.ExpectAny())
	if _, err := l.Commit(t.Context(), s.ID, p); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error is %v, want ENOSPC", err)
	}
	if _, err := l.Blobs(s.ID).Put(t.Context(), []byte(content)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Put: %v, want ENOSPC", err)
	}
	if tip, err := l.Tip(t.Context(), s.ID); err != nil || tip.Seq != 1 {
		t.Errorf("tip is %+v, %v", tip, err)
	}
	wantNoBlob(t, l.Blobs(s.ID), content)
	limit(1 << 30)
	if c, err := l.Commit(t.Context(), s.ID, p); err != nil || c.Seq != 2 {
		t.Errorf("with space again: %v, %v", c, err)
	}
	wantBlob(t, l.Blobs(s.ID), content)
}

// TestDamagedPages: a database whose pages are damaged has damaged blobs.
func TestDamagedPages(t *testing.T) {
	dir, s := newLog(t)
	w := openTest(t, dir, nil)
	content := strings.Repeat("0123456789abcdef", 4096)
	if _, err := w.Commit(t.Context(), s.ID, withContent("/x", content, versionlog.ExpectAny())); err != nil {
		t.Fatal(err)
	}
	closeOnce(t, w)
	path := w.path(DatabaseName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte(content[:64]))
	if at < 0 {
		t.Fatal("the content is not in the database as it is")
	}
	data[at+10] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openTest(t, dir, nil).Blobs(s.ID).Get(t.Context(), cas.Sum([]byte(content))); !errors.Is(err, cas.ErrCorrupt) {
		t.Errorf("error is %v", err)
	}
}

// TestKilledWithContent: a version that a killed process was told is committed has its bytes, and
// so has every version that a reader can see.
func TestKilledWithContent(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	for round := range 3 {
		p := start(t, "crash-content", dir, s.ID)
		last := ""
		for range 30 {
			if _, err := fmt.Fscanln(p.out, &last); err != nil {
				t.Fatal(err, p.stderr.String())
			}
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.cmd.Wait() // it was killed
		if round == 1 {  // the next one finds the files as the killed one left them
			closeOnce(t, l)
			l = openTest(t, dir, nil)
		}
		b := l.Blobs(s.ID)
		seen := false
		for c, err := range l.Commits(t.Context(), s.ID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			v := &c.Versions[0]
			seen = seen || v.Path == last
			if _, err := b.Get(t.Context(), v.Digest); err != nil {
				t.Errorf("commit %d: %v", c.Seq, err)
			}
		}
		if !seen {
			t.Errorf("%s was acknowledged and is not there", last)
		}
	}
}

// commitContents commits contents of many sizes and says which are in, until
// it is killed.
func commitContents(ctx context.Context, l *Log, storeID string) error {
	for i := 0; ; i++ {
		path := fmt.Sprintf("/%d-%d", os.Getpid(), i)
		content := path + strings.Repeat("x", i*7919%MaxContent/2)
		if _, err := l.Commit(ctx, storeID, withContent(path, content, versionlog.ExpectAbsent())); err != nil {
			return err
		}
		fmt.Println(path)
	}
}

// TestEarlierFormat: a log of format 1 is read as it is, and brought to this one by the first
// writer; a reader continues meanwhile.
func TestEarlierFormat(t *testing.T) {
	dir, s := newLog(t)
	for _, column := range strings.Split(quotaColumns[2:]+eventColumns+policyColumn, ", ") {
		change(t, dir, `ALTER TABLE stores DROP COLUMN `+column)
	}
	change(t, dir, `ALTER TABLE versions DROP COLUMN spelling`)
	change(t, dir, `DROP TABLE packed`, `DROP TABLE packing`, `DROP TABLE packed_records`, `DROP TABLE files_left`, `DROP TABLE early`, `DROP INDEX versions_content`, `DROP INDEX versions_path`, `DROP INDEX versions_left`, `DROP TABLE blobs`, `PRAGMA user_version = 1`)
	r := openTest(t, dir, &Options{ReadOnly: true})
	wantTotals := func(l *Log, want versionlog.Totals) {
		t.Helper()
		if tip, err := l.Tip(t.Context(), s.ID); err != nil || tip.Totals != want {
			t.Errorf("tip is %+v, %v, want totals of %+v", tip, err, want)
		}
	}
	wantTotals(r, versionlog.Totals{}) // a reader does not count
	if then, err := r.At(t.Context(), s.ID, 1); err != nil {
		t.Error(err)
	} else if head, err := then.Head(t.Context(), "/a"); err != nil || head.Seq != 1 {
		t.Errorf("the head at 1 is %+v, %v", head, err)
	}
	if head, err := r.Head(t.Context(), s.ID, "/a"); err != nil || head.Size != 1 {
		t.Errorf("head is %+v, %v", head, err)
	}
	b := r.Blobs(s.ID)
	wantNoBlob(t, b, "new")
	for d, err := range b.List(t.Context()) {
		t.Errorf("listed: %v, %v", d, err)
	}
	w := openTest(t, dir, nil)
	if _, err := w.Commit(t.Context(), s.ID, withContent("/a", "new", versionlog.ExpectAny())); err != nil {
		t.Fatal(err)
	}
	wantTotals(w, versionlog.Totals{Bytes: 4, Memories: 1, InHour: 2})
	// One of an earlier mneme who has the log open still writes, and does not count.
	change(t, dir, `UPDATE stores SET counted_seq = 1, total_bytes = 1, total_memories = 1, in_hour = 1`)
	wantTotals(w, versionlog.Totals{Bytes: 4, Memories: 1, InHour: 2})
	put(t, w, s.ID, "/a", "12345")
	wantTotals(w, versionlog.Totals{Bytes: 9, Memories: 1, InHour: 3})
	wantBlob(t, b, "new")
	if head, err := r.Head(t.Context(), s.ID, "/a"); err != nil || head.Seq != 3 {
		t.Errorf("head is %+v, %v", head, err)
	}
	fresh, _ := newLog(t)
	if got, want := schemaOf(t, dir), schemaOf(t, fresh); got != want {
		t.Errorf("an old log became\n%s\na new one is\n%s", got, want)
	}
}

// TestContentsStay holds that a content does not change when others are read after it, though
// they are not copied out of the memory that the driver hands over.
func TestContentsStay(t *testing.T) {
	dir, info := newLog(t)
	b := openTest(t, dir, nil).Blobs(info.ID)
	digests := make([]cas.Digest, 50)
	held := make([][]byte, len(digests))
	for i := range digests {
		var err error
		if digests[i], err = b.Put(t.Context(), []byte(strings.Repeat(string(rune('a'+i)), 4096))); err != nil {
			t.Fatal(err)
		}
	}
	for i, d := range digests {
		var err error
		if held[i], err = b.Get(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	for i, d := range digests {
		if cas.Sum(held[i]) != d {
			t.Errorf("content %d has changed", i)
		}
	}
}

// TestForgetBesideCommits: while connections are opened again, others continue to write and read.
func TestForgetBesideCommits(t *testing.T) {
	dir, s := newLog(t)
	b := openTest(t, dir, nil).Blobs(s.ID)
	var forgetting sync.WaitGroup
	forgetting.Go(func() {
		for range 20 {
			if err := b.Forget(); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 20 {
		data := fmt.Appendf(nil, "content %d", i)
		d, err := b.Put(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.Get(t.Context(), d); err != nil || !bytes.Equal(got, data) {
			t.Errorf("Get: %q, %v", got, err)
		}
	}
	forgetting.Wait()
}
