package sqlitelog

import (
	"context"
	"sync/atomic"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
)

// askedFiles counts how often one content is asked about.
type askedFiles struct {
	*memcas.Store
	asked atomic.Int64
}

func (f *askedFiles) Has(ctx context.Context, d cas.Digest) (bool, error) {
	f.asked.Add(1)
	return f.Store.Has(ctx, d)
}

// TestCheckAsksNoFileEach: a check lists the contents in files. To ask about each packed content
// costs several opened directories.
func TestCheckAsksNoFileEach(t *testing.T) {
	files := &askedFiles{Store: memcas.New()}
	l := openTest(t, t.TempDir(), &Options{Files: func(string) (Files, error) { return files, nil }})
	s := addStore(t, l, "s")
	versionsOf(t, l, s.ID, "/a", 40)
	packAll(t, l)
	files.asked.Store(0)
	if err := l.Check(t.Context(), s.ID, func(p Problem) { t.Errorf("found %v", p) }); err != nil {
		t.Fatal(err)
	}
	if n := files.asked.Load(); n > 0 {
		t.Errorf("%d contents were asked about", n)
	}
}

// TestBatchHasPacked: packed contents are read together as well, and a damaged one is left out.
func TestBatchHasPacked(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	var ds []cas.Digest
	for _, content := range versionsOf(t, l, s.ID, "/a", 40) {
		ds = append(ds, cas.Sum([]byte(content)))
	}
	packAll(t, l)
	read := func() (missing int) {
		for i, data := range l.Blobs(s.ID).GetBatch(t.Context(), ds) {
			if data == nil {
				missing++
			} else if cas.Sum(data) != ds[i] {
				t.Errorf("content %d is another", i)
			}
		}
		return missing
	}
	if n := read(); n > 0 {
		t.Errorf("%d contents were not read", n)
	}
	change(t, dir, `UPDATE packed SET data = x'00' WHERE id = (SELECT max(id) FROM packed WHERE data IS NOT NULL)`)
	if n := read(); n == 0 {
		t.Error("a damaged content was read")
	}
}

// TestSurveyReadsNeitherRecordsNorContents: both are damaged, and the index tells what it has.
func TestSurveyReadsNeitherRecordsNorContents(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	versionsOf(t, l, s.ID, "/a", 8)
	packAll(t, l)
	change(t, dir, `UPDATE commits SET record = x'00'; UPDATE blobs SET data = x'00'; UPDATE packed SET data = x'00' WHERE data IS NOT NULL`)
	found, err := l.Capabilities().Survey(t.Context(), s.ID)
	if err != nil || found.Versions != 8 || found.Memories != 1 || found.Contents != 8 || len(found.Elsewhere) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
	change(t, dir, `DELETE FROM blobs`)
	if found, err = l.Capabilities().Survey(t.Context(), s.ID); err != nil || len(found.Elsewhere) != 1 {
		t.Errorf("without the head's content: %+v, %v", found, err)
	}
}
