package sqlitelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/cas/sizecas"
	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// packAll packs and shrinks until nothing is left to do.
func packAll(t testing.TB, l *Log) {
	t.Helper()
	for {
		worked, err := l.packer.step(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if !worked {
			break
		}
	}
	for {
		worked, err := l.packer.shrink(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !worked {
			break
		}
	}
	_, _ = l.writer.checkpoint(t.Context(), "TRUNCATE")
}

// words is text of so many bytes, which compresses to about the half.
func words(r *rand.Rand, n int) []byte {
	var b bytes.Buffer
	for b.Len() < n {
		for range 2 + r.IntN(8) {
			b.WriteByte(byte('a' + r.IntN(26)*r.IntN(26)/26))
		}
		b.WriteByte(" \n"[r.IntN(12)/11])
	}
	return b.Bytes()[:n]
}

// dirSize is how many bytes the files of a directory have.
func dirSize(t testing.TB, dir string) (total int64) {
	t.Helper()
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// checkReadable makes sure that every content of a store's versions can be read and
// verified.
func checkReadable(t testing.TB, l *Log, storeID string) {
	t.Helper()
	b := cas.Store(l.Blobs(storeID))
	if files, err := l.filesOf(storeID); err != nil {
		t.Fatal(err)
	} else if files != nil {
		b = sizecas.New(l.Blobs(storeID), MaxContent, files.(sizecas.Backend))
	}
	for c, err := range l.Commits(t.Context(), storeID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range c.Versions {
			if v.Digest.IsZero() {
				continue
			}
			if _, err := b.Get(t.Context(), v.Digest); err != nil {
				t.Fatalf("commit %d, %s: %v", c.Seq, v.Path, err)
			}
		}
	}
}

// checkPacked makes sure that all contents of a store can be read, that heads are whole,
// that chains end, and that fsck finds nothing.
func checkPacked(t testing.TB, l *Log, storeID string) {
	t.Helper()
	checkReadable(t, l, storeID)
	ctx := t.Context()
	for v, err := range l.Heads(ctx, storeID, "/", "") {
		if err != nil {
			t.Fatal(err)
		}
		num, _, err := l.Blobs(storeID).ready(ctx, packedFormat)
		if err != nil {
			t.Fatal(err)
		}
		files, err := l.filesOf(storeID)
		if err != nil {
			t.Fatal(err)
		}
		c := &contents{source: l.db, store: num, files: files}
		if _, _, err := c.whole(ctx, v.Digest); err != nil {
			t.Errorf("the head at %s is not whole: %v", v.Path, err)
		}
	}
	rows, err := queryAll(ctx, l.db, packedColumns, scanPacked)
	if err != nil {
		t.Fatal(err)
	}
	byID := map[int64]packed{}
	for _, row := range rows {
		byID[row.id] = row
	}
	for _, row := range rows {
		n := 0
		for at := row; at.frame != nil; at = byID[at.base] {
			if n++; at.base == 0 || n > maxChain {
				break
			}
		}
		if n > maxChain {
			t.Errorf("%v takes %d frames", row.digest, n)
		}
	}
	for _, check := range []func(report func(Problem)) error{
		func(r func(Problem)) error { return l.Check(ctx, storeID, r) },
		func(r func(Problem)) error { return l.CheckDatabase(ctx, r) },
	} {
		if err := check(func(p Problem) { t.Errorf("%+v", p) }); err != nil {
			t.Error(err)
		}
	}
}

// TestAppendsAreSmall: a file of 100 KB that grows by a byte a thousand times takes less
// than a mebibyte with its whole history.
func TestAppendsAreSmall(t *testing.T) {
	withLongFrames(t)
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	text := words(rand.New(rand.NewPCG(1, 1)), 100_000)
	for range 1000 {
		text = append(text, 'x')
		commitContent(t, l, s.ID, "/log.md", string(text))
	}
	packAll(t, l)
	checkPacked(t, l, s.ID)
	size, contents := dirSize(t, dir), contentBytes(t, l)
	t.Logf("%d bytes, of which contents %d", size, contents)
	if size > 1<<20 || contents > 200_000 {
		t.Errorf("%d bytes, of which contents %d", size, contents)
	}
}

// contentBytes is how many bytes the contents take in the database.
func contentBytes(t testing.TB, l *Log) int64 {
	t.Helper()
	n, err := queryOne(t.Context(), l.db, `SELECT (SELECT coalesce(sum(length(data) + 32), 0) FROM blobs) +
		(SELECT coalesce(sum(length(data) + 36), 0) FROM packed)`, func(row *sqlite.Row) (int64, error) { return row.ColumnInt64(0), nil })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// isRefusal reports whether a commit says what is not possible.
func isRefusal(err error) bool {
	return errors.Is(err, versionlog.ErrConflict) || errors.Is(err, versionlog.ErrOverlap) || errors.Is(err, versionlog.ErrInvalid)
}

// edited returns a text with a few words changed.
func edited(r *rand.Rand, data []byte) []byte {
	at := r.IntN(len(data) + 1)
	end := min(at+r.IntN(20), len(data))
	return slices.Concat(data[:at], words(r, 1+r.IntN(30)), data[end:])
}

// TestPackedAtRandom has several logs on one database commit, take back, copy, rename,
// delete and pack at random. Every content stays what it is, heads are whole, and chains
// end.
func TestPackedAtRandom(t *testing.T) {
	for seed := range 4 {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { packAtRandom(t, rand.New(rand.NewPCG(uint64(seed), 1))) })
	}
}

func packAtRandom(t *testing.T, r *rand.Rand) {
	dir := t.TempDir()
	files := memcas.New()
	opts := &Options{Files: func(string) (Files, error) { return files, nil }}
	logs := []*Log{openTest(t, dir, opts), openTest(t, dir, opts), openTest(t, dir, opts)}
	s := addStore(t, logs[0], "s")
	var past [][]byte
	paths := []string{"/a", "/b", "/c", "/d/e"}
	draw := func(of ...string) string { return of[r.IntN(len(of))] }
	for range 120 {
		l := logs[r.IntN(len(logs))]
		path := draw(paths...)
		change := versionlog.Change{Action: versionlog.Put, Path: path, Expect: versionlog.ExpectAny()}
		switch draw("edit", "edit", "edit", "edit", "edit", "edit", "repeat", "new", "large", "rename", "delete", "pack", "pack", "other") {
		case "edit":
			data := []byte("first")
			if head, err := l.Head(t.Context(), s.ID, path); err == nil {
				if data, err = sizecas.New(l.Blobs(s.ID), MaxContent, files).Get(t.Context(), head.Digest); err != nil {
					t.Fatalf("head of %s: %v", path, err)
				}
			}
			change.Content = edited(r, data)
		case "repeat":
			if len(past) == 0 {
				continue
			}
			change.Content = past[r.IntN(len(past))]
		case "new":
			change.Content = words(r, 100+r.IntN(3000))
		case "large":
			change.Content = bytes.Repeat(words(r, 1000+r.IntN(1000)), MaxContent/1000+1)
		case "rename":
			change = versionlog.Change{Action: versionlog.Rename, Path: path, To: draw(paths...), Expect: versionlog.ExpectAny()}
		case "delete":
			change.Action = versionlog.Remove
		case "other": // as a caller that writes a content that becomes no head
			if _, err := l.Blobs(s.ID).Put(t.Context(), words(r, 500)); err != nil {
				t.Fatal(err)
			}
			continue
		case "pack":
			if _, err := l.packer.step(t.Context(), 1); err != nil {
				t.Fatalf("pack: %v", err)
			}
			continue
		}
		if change.Content != nil {
			past = append(past, change.Content)
			change.Digest, change.Size = cas.Sum(change.Content), int64(len(change.Content))
			if len(change.Content) > MaxContent {
				if _, err := files.Put(t.Context(), change.Content); err != nil {
					t.Fatal(err)
				}
				change.Content = nil
			}
		}
		if _, err := l.Commit(t.Context(), s.ID, &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{change}}); err != nil &&
			!isRefusal(err) {
			t.Fatal(err)
		}
	}
	packAll(t, logs[0])
	checkPacked(t, logs[1], s.ID)
}

// restless is the pace of a log that packs whenever it can.
var restless = pace{quiet: time.Millisecond, patience: time.Millisecond, settled: time.Millisecond, atClose: 1, retry: time.Minute}

// ownPace is that of logs outside tests.
var ownPace = packPace

// calmPace is that of one that does not pack by itself.
var calmPace = pace{quiet: never, patience: never, settled: never, atClose: 1 << 60, retry: never}

// atPace sets the pace of logs that the test opens.
func atPace(t testing.TB, p pace) {
	before := packPace
	packPace = p
	t.Cleanup(func() { packPace = before })
}

// TestPackedBehindCommits: logs pack by themselves while all commit and read, and
// when they are closed.
func TestPackedBehindCommits(t *testing.T) {
	atPace(t, restless)
	dir := t.TempDir()
	files := memcas.New()
	opts := &Options{Files: func(string) (Files, error) { return files, nil }}
	first := openTest(t, dir, opts)
	s := addStore(t, first, "s")
	var workers sync.WaitGroup
	for i := range 3 {
		workers.Go(func() {
			l, r := openTest(t, dir, opts), rand.New(rand.NewPCG(uint64(i), 9))
			defer closeOnce(t, l)
			text := words(r, 4000)
			b := sizecas.New(l.Blobs(s.ID), MaxContent, files)
			var all []cas.Digest
			for n := range 60 {
				text = edited(r, text)
				data := text
				if n%20 == 19 { // large, every now and then
					data = slices.Concat(text, bytes.Repeat(text, 40))
				}
				change := versionlog.Change{Action: versionlog.Put, Path: fmt.Sprint("/", n%2, i), Expect: versionlog.ExpectAny(), Digest: cas.Sum(data), Size: int64(len(data)), Content: data}
				if len(data) > MaxContent {
					change.Content = nil
					if _, err := b.Put(t.Context(), data); err != nil {
						t.Error(err)
					}
				}
				if _, err := l.Commit(t.Context(), s.ID, &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{change}}); err != nil {
					t.Error(err)
				}
				all = append(all, change.Digest)
				d := all[r.IntN(len(all))]
				if _, err := b.Get(t.Context(), d); err != nil {
					t.Errorf("%v: %v", d, err)
				}
			}
		})
	}
	workers.Wait()
	closeOnce(t, first)
	packPace = calmPace
	l := openTest(t, dir, opts)
	packAll(t, l)
	checkPacked(t, l, s.ID)
	if n := contentBytes(t, l); n > 500_000 {
		t.Errorf("contents take %d bytes", n)
	}
}

// TestStill: a log that is opened still packs nothing, at its end neither.
func TestStill(t *testing.T) {
	atPace(t, restless)
	dir := t.TempDir()
	l := openTest(t, dir, &Options{Still: true})
	s := addStore(t, l, "s")
	for i := range 20 {
		put(t, l, s.ID, "/a", fmt.Sprint("the same but for ", i))
	}
	closeOnce(t, l)
	packPace = calmPace
	l = openTest(t, dir, nil)
	if n, err := queryOne(t.Context(), l.db, `SELECT (SELECT count(*) FROM packed) + (SELECT count(*) FROM packed_records) + (SELECT count(*) FROM packing)`, scanMicros); err != nil || n != 0 {
		t.Errorf("%d rows of what is packed, %v", n, err)
	}
}

// TestSettlesAfterRefusals: work that is held up by a proposal which makes no commit, and so
// wakes no goroutine, is done later.
func TestSettlesAfterRefusals(t *testing.T) {
	dir, _ := newLog(t)
	p := &packer{log: openTest(t, dir, nil), pace: pace{settled: 20 * time.Millisecond}}
	p.committing()
	ctx, end := context.WithCancel(t.Context())
	var refused sync.WaitGroup
	refused.Go(func() {
		for ; ctx.Err() == nil; runtime.Gosched() {
			p.committing()
		}
	})
	if left := p.settle(t.Context()); !left {
		t.Error("nothing is left to do")
	}
	end()
	refused.Wait()
}

// TestPackingWaitsForCommits: while a commit is under way, as long as that takes, nothing is packed.
func TestPackingWaitsForCommits(t *testing.T) {
	dir, _ := newLog(t)
	l := openTest(t, dir, nil)
	p := &packer{log: l, pace: pace{patience: 50 * time.Millisecond}}
	for _, isBusy := range []bool{false, true} {
		if isBusy {
			l.writer.turn <- struct{}{}
		}
		began := time.Now()
		if !p.calm(t.Context()) {
			t.Error("the context has ended")
		}
		if waited := time.Since(began) >= p.pace.patience; isBusy && !waited {
			t.Error("it packs beside a commit")
		}
	}
	<-l.writer.turn
}
