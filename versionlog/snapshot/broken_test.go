package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/errkind"
	"mneme/versionlog"

	"github.com/klauspost/compress/zstd"
)

// TestDamage flips bits of every object and cuts it short: each time it is found.
func TestDamage(t *testing.T) {
	_, commits := history(t, 1, 12)
	whole := folded(t, commits, len(commits))
	check := func(o *objects) error {
		s, err := Open(t.Context(), o)
		if err == nil {
			err = s.Check(t.Context())
		}
		return err
	}
	if err := check(whole); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(whole.listed(t))) {
		data := whole.data[name]
		damaged := map[string][]byte{"nothing": {}, "half": data[:len(data)/2], "longer": append(bytes.Clone(data), 0)}
		for i := 0; i < len(data); i += 1 + len(data)/61 {
			flipped := bytes.Clone(data)
			flipped[i] ^= 1 << (i % 8)
			damaged[fmt.Sprint("bit of byte ", i)] = flipped
		}
		for what, data := range damaged {
			o := newObjects()
			maps.Copy(o.data, whole.data)
			o.data[name] = data
			if err := check(o); !errors.Is(err, versionlog.ErrCorrupt) && !errors.Is(err, versionlog.ErrFormat) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		o := newObjects()
		maps.Copy(o.data, whole.data)
		delete(o.data, name)
		if err := check(o); name != manifestName && !errors.Is(err, versionlog.ErrCorrupt) || errors.Is(err, versionlog.ErrNotFound) || err == nil {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestMissingPage: what a page that is missing held is not said not to exist.
func TestMissingPage(t *testing.T) {
	o := folded(t, chain(9, 9), 9)
	s := o.open(t)
	clear(o.data)
	_, err := s.State().Head(t.Context(), "/mem_00003")
	if errors.Is(err, versionlog.ErrNotFound) || errkind.Of(err) != errkind.Corrupt {
		t.Errorf("a head in a missing page: %v", err)
	}
}

// TestOtherHistory holds snapshots against histories that are not theirs.
func TestOtherHistory(t *testing.T) {
	commits := chain(30, 5)
	o := folded(t, commits, 20)
	forked := slices.Clone(commits)
	for i := 14; i < len(forked); i++ {
		c := *forked[i]
		c.Digest = cas.Sum([]byte(fmt.Sprint("fork ", i)))
		c.Prev = forked[i-1].Digest
		forked[i] = &c
	}
	broken := slices.Clone(commits)
	c := *broken[24]
	c.Prev = cas.Sum(nil)
	broken[24] = &c
	failing := func(yield func(*versionlog.Commit, error) bool) {
		yield(nil, context.DeadlineExceeded)
	}
	other := *commits[20]
	other.StoreID = "memstore_2"
	for name, test := range map[string]struct {
		seq     uint64
		commits iter.Seq2[*versionlog.Commit, error]
		want    error
	}{
		"same":                {30, yielding(commits[19:]), nil},
		"from the next on":    {30, yielding(commits[20:]), nil},
		"itself":              {20, yielding(commits[19:]), nil},
		"fork":                {30, yielding(forked[19:]), ErrOtherHistory},
		"fork, from the next": {30, yielding(forked[20:]), ErrOtherHistory},
		"fork, itself":        {20, yielding(forked[19:]), ErrOtherHistory},
		"other store":         {21, yielding([]*versionlog.Commit{&other}), ErrOtherHistory},
		"broken chain":        {30, yielding(broken[19:]), ErrOtherHistory},
		"gap":                 {30, yielding(slices.Delete(slices.Clone(commits[19:]), 3, 4)), ErrOrder},
		"twice":               {30, yielding(append([]*versionlog.Commit{commits[19]}, commits[19:]...)), ErrOrder},
		"too late":            {30, yielding(commits[21:]), ErrOrder},
		"too early":           {30, yielding(commits[18:]), ErrOrder},
		"before":              {19, yielding(commits[19:]), ErrOrder},
		"ends before":         {31, yielding(commits[19:]), versionlog.ErrNotFound},
		"itself, not there":   {20, yielding(commits[20:20]), versionlog.ErrNotFound},
		"error":               {30, failing, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			s, to := o.open(t), newObjects()
			if err := s.Fold(t.Context(), to, test.seq, test.commits); !errors.Is(err, test.want) || err != nil && len(to.data) > 0 {
				t.Errorf("fold: %v and %d objects, want %v", err, len(to.data), test.want)
			}
			if _, err := s.At(test.seq, test.commits); !errors.Is(err, test.want) {
				t.Errorf("state: %v, want %v", err, test.want)
			}
		})
	}
}

// forge returns a snapshot of one page whose manifest vouches for it, with a part of the
// manifest replaced.
func forge(page []byte, raw string, parts ...string) *objects {
	o := newObjects()
	o.data["pages/"+cas.Sum(page).String()] = page
	body := fmt.Sprintf(`{"store_id":"memstore_1","tip":{"seq":1,"digest":"%064d"},"heads":{"count":2,"pages":[{"first":"/a","count":2,"sha256":"%s","size":%d,"raw":%d}]}}`,
		1, cas.Sum(page), len(page), len(raw))
	body = strings.NewReplacer(parts...).Replace(body)
	o.data[manifestName] = append(header([]byte(body)), body...)
	return o
}

// TestForged has snapshots whose hashes are right and whose contents are not.
func TestForged(t *testing.T) {
	const ab = `{"path":"/a"}` + "\n" + `{"path":"/b"}` + "\n"
	zip := func(raw string) []byte { return encoder().EncodeAll([]byte(raw), nil) }
	for name, test := range map[string]struct {
		o    *objects
		good bool
	}{
		"as it should be":      {forge(zip(ab), ab), true},
		"unknown members":      {forge(zip(ab), ab, `{"store_id"`, `{"new":[1],"store_id"`), true},
		"not compressed":       {forge([]byte(ab), ab), false},
		"longer":               {forge(zip(ab+"\n"), ab), false},
		"shorter":              {forge(zip(ab), ab+"x"), false},
		"more behind the end":  {forge(zip(ab[:len(ab)-1]+"x"), ab), false},
		"no line end":          {forge(zip(ab[:len(ab)-1]), ab[:len(ab)-1]), false},
		"no JSON":              {forge(zip(strings.Repeat("x", len(ab)-1)+"\n"), ab), false},
		"wrong order":          {forge(zip(strings.ReplaceAll(ab, "/b", "/A")), ab), false},
		"wrong first":          {forge(zip(ab), ab, `"/a"`, `"/A"`), false},
		"too many lines":       {forge(zip(ab), ab, `"count":2`, `"count":1`), false},
		"too few lines":        {forge(zip(ab), ab, `"count":2`, `"count":3`), false},
		"other sum of lines":   {forge(zip(ab), ab, `{"count":2`, `{"count":3`), false},
		"negative size":        {forge(zip(ab), ab, `"size":`, `"size":-`), false},
		"negative count":       {forge(zip(ab), ab, `"count":2`, `"count":-2`), false},
		"negative raw":         {forge(zip(ab), ab, `"raw":`, `"raw":-`), false},
		"enormous raw":         {forge(zip(ab), ab, `"raw":`, `"raw":1000000000`), false},
		"enormous size":        {forge(zip(ab), ab, `"size":`, `"size":1000000000`), false},
		"enormous count":       {forge(zip(ab), ab, `"count":2`, `"count":2000000000`), false},
		"no digest":            {forge(zip(ab), ab, fmt.Sprintf("%064d", 1), ""), false},
		"history of later":     {forge(zip(ab), ab, `"heads"`, `"history_after":2,"heads"`), false},
		"keys of later":        {forge(zip(ab), ab, `"heads"`, `"keys_after":2,"heads"`), false},
		"manifest of no JSON":  {forge(zip(ab), ab, `"heads"`, `heads`), false},
		"memories of no seqs":  {forge(zip(`{"memory_id":"m"}`+"\n"), `{"memory_id":"m"}`+"\n", `"heads"`, `"memories"`, `"count":2`, `"count":1`, `"/a"`, `"m"`), false},
		"memories, wrong seqs": {forge(zip(`{"memory_id":"m","seqs":[3,2]}`+"\n"), `{"memory_id":"m","seqs":[3,2]}`+"\n", `"heads"`, `"memories"`, `"count":2`, `"count":1`, `"/a"`, `"m#00000000000000000000"`), false},
	} {
		s, err := Open(t.Context(), test.o)
		if err == nil {
			err = s.Check(t.Context())
		}
		if limits := strings.HasPrefix(name, "enormous") || strings.HasPrefix(name, "negative"); limits && s != nil {
			t.Errorf("%s: it was opened", name)
		}
		if test.good != (err == nil) || err != nil && !errors.Is(err, versionlog.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForgedOrder has pages that are right, each for itself.
func TestForgedOrder(t *testing.T) {
	for name, test := range map[string]struct {
		pages [2]string
		good  bool
	}{
		"one after the other": {[2]string{"/a /b", "/c /d"}, true},
		"overlapping":         {[2]string{"/a /c", "/b /d"}, false},
		"the same end":        {[2]string{"/a /c", "/c /d"}, false},
		"wrong order":         {[2]string{"/c /d", "/a /b"}, false},
		"twice":               {[2]string{"/a /b", "/a /b"}, false},
	} {
		o := newObjects()
		s := Empty("memstore_1", "")
		for _, paths := range test.pages {
			w := writer{sink: o, paging: defaultPaging}
			for path := range strings.FieldsSeq(paths) {
				if err := w.add(t.Context(), line{path, fmt.Appendf(nil, `{"path":%q}`, path)}); err != nil {
					t.Fatal(err)
				}
			}
			l, err := w.end(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.heads.Pages = append(s.heads.Pages, l.Pages...)
			s.heads.Count += l.Count
		}
		if err := s.put(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		opened, err := Open(t.Context(), o)
		if firsts := name == "wrong order" || name == "twice"; firsts && err == nil {
			t.Errorf("%s: it was opened", name)
		}
		if err == nil {
			err = opened.Check(t.Context())
		}
		if test.good != (err == nil) || err != nil && !errors.Is(err, versionlog.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBomb: a page that would decompress to much more than it should takes no more memory
// than the page that it should be.
func TestBomb(t *testing.T) {
	const ab = `{"path":"/a"}` + "\n" + `{"path":"/b"}` + "\n"
	var streamed bytes.Buffer // whose frame does not tell how much it holds
	w, err := zstd.NewWriter(&streamed)
	if err != nil {
		t.Fatal(err)
	}
	for range 64 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, page := range map[string][]byte{
		"streamed": streamed.Bytes(), "at once": encoder().EncodeAll(make([]byte, 64<<20), nil), "small": encoder().EncodeAll(make([]byte, 3<<20), nil),
	} {
		s := forge(page, ab).open(t)
		_ = s.Check(t.Context()) // the decoder makes its buffers
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := s.Check(t.Context())
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, versionlog.ErrCorrupt) || took > 1<<20 {
			t.Errorf("%s: %v, and %d bytes were allocated", name, err, took)
		}
	}
}

// TestManyPages: a manifest takes no more memory than the pages that it describes take in full.
func TestManyPages(t *testing.T) {
	body := `{"heads":{"pages":[` + strings.Repeat("{},", 1<<20) + `{}]}}`
	o := newObjects()
	o.data[manifestName] = append(header([]byte(body)), body...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Open(t.Context(), o)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, versionlog.ErrCorrupt) || took > 1<<20 {
		t.Errorf("%v, and %d bytes were allocated", err, took)
	}
}

// TestNewer: a snapshot of a later format says so, whatever else it has.
func TestNewer(t *testing.T) {
	o := newObjects()
	o.data[manifestName] = []byte(fmt.Sprintf("mneme snapshot %d what comes\n\x00", Format+1))
	if _, err := Open(t.Context(), o); !errors.Is(err, versionlog.ErrFormat) {
		t.Errorf("%v, want %v", err, versionlog.ErrFormat)
	}
}

// TestWriteRefuses what could not be read again.
func TestWriteRefuses(t *testing.T) {
	long := versionlog.Version{Path: "/a", Message: strings.Repeat("x", maxLine)}
	for name, test := range map[string]struct {
		heads []versionlog.Version
		want  error
	}{
		"wrong order": {[]versionlog.Version{{Path: "/b"}, {Path: "/a"}}, ErrOrder},
		"twice":       {[]versionlog.Version{{Path: "/a"}, {Path: "/a"}}, ErrOrder},
		"too long":    {[]versionlog.Version{long}, ErrTooLarge},
		"not UTF-8":   {[]versionlog.Version{{Path: "/\xff"}}, versionlog.ErrInvalid},
	} {
		o := newObjects()
		if err := Write(t.Context(), o, Point{StoreID: "memstore_1"}, yielding(test.heads)); !errors.Is(err, test.want) || o.data[manifestName] != nil {
			t.Errorf("%s: %v, want %v and no manifest", name, err, test.want)
		}
	}
}

// TestSourceFS reads the objects that are files, and no more of one than it should have.
func TestSourceFS(t *testing.T) {
	o := folded(t, chain(9, 9), 9)
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/pages", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range o.data {
		if err := os.WriteFile(dir+"/"+name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	source := FromFS(os.DirFS(dir))
	s, err := Open(t.Context(), source)
	if err != nil || s.Check(t.Context()) != nil {
		t.Errorf("%v, %v", err, s.Check(t.Context()))
	}
	if data, err := source.Get(t.Context(), manifestName, 10); err != nil || len(data) != 11 {
		t.Errorf("%d bytes were read, %v, want one more than the limit", len(data), err)
	}
	if _, err := Open(t.Context(), FromFS(os.DirFS(t.TempDir()))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("where nothing is: %v", err)
	}
}
