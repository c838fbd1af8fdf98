package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mneme/cas"
	"mneme/forget"
	"mneme/versionlog"
)

var update = flag.Bool("update", false, "write testdata/archive-v1.tar anew")

const fixture = "testdata/archive-v1.tar"

// TestFixture: an archive of format 1 is read, and written, as ever.
func TestFixture(t *testing.T) {
	if *update {
		p := newPlace(t)
		p.fill("notes")
		p.must(os.MkdirAll(filepath.Dir(fixture), 0o700))
		p.must(os.WriteFile(fixture, p.export("notes", nil), 0o600))
	}
	data, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	_, err = p.bring(data, ImportOptions{})
	p.must(err)
	p.wantSame("notes", data)
}

// entry is one of a tar.
type entry struct {
	tar.Header
	data string
}

func entriesOf(t testing.TB, data []byte) (all []entry) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		content, err2 := io.ReadAll(r)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		all = append(all, entry{*h, string(content)})
	}
}

func pack(t testing.TB, all []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range all {
		e.Size = int64(len(e.data))
		if e.Typeflag != tar.TypeReg {
			e.Size = 0
		}
		err := w.WriteHeader(&e.Header)
		if err == nil && e.Size > 0 {
			_, err = io.WriteString(w, e.data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// seal makes the manifest fit the entries after it, as an attacker who changes an archive
// would.
func seal(t testing.TB, all []entry, change func(*Manifest)) []entry {
	t.Helper()
	m, err := decodeManifest([]byte(all[0].data))
	if err != nil {
		t.Fatal(err)
	}
	m.Listed = Part{int64(strings.Count(all[1].data, "\n")), int64(len(all[1].data))}
	m.Blobs = Part{Count: int64(len(all) - 2)}
	for _, e := range all[2:] {
		m.Blobs.Bytes += int64(len(e.data))
	}
	if change != nil {
		change(m)
	}
	h, err := newRootHash(m)
	for _, e := range all[1:] {
		sum := cas.Sum([]byte(e.data))
		h.entry(e.Name, int64(len(e.data)), sum[:])
	}
	m.Root = h.root()
	text, err2 := m.encode()
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	all[0].data = string(text)
	return all
}

// TestHostile: whatever is changed of an archive is found before anything is written.
func TestHostile(t *testing.T) {
	p := newPlace(t)
	p.fill("notes")
	good := p.export("notes", nil)
	changed := func(change func([]entry) []entry) []byte { return pack(t, change(entriesOf(t, good))) }
	sealed := func(change func([]entry) []entry, manifest func(*Manifest)) []byte {
		return pack(t, seal(t, change(entriesOf(t, good)), manifest))
	}
	same := func(all []entry) []entry { return all }
	replace := func(i int, old, by string) func([]entry) []entry {
		return func(all []entry) []entry {
			if !strings.Contains(all[i].data, old) {
				t.Fatalf("%s has no %s", all[i].Name, old)
			}
			all[i].data = strings.Replace(all[i].data, old, by, 1)
			return all
		}
	}
	headed := func(change func(*tar.Header)) []byte {
		return changed(func(all []entry) []entry { change(&all[2].Header); return all })
	}
	if a := sealed(same, nil); !bytes.Equal(a, good) {
		t.Fatal("what is sealed without a change is another archive")
	}
	for _, test := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "does not begin with manifest.json"},
		{"no tar", bytes.Repeat([]byte("x"), 4096), "does not begin with"},
		{"compressed", []byte("\x28\xb5\x2f\xfd1234"), "compressed by zstd"},
		{"another tar", changed(func(all []entry) []entry { return all[1:] }), "does not begin with"},
		{"newer", changed(replace(0, `"format": 1`, `"format": 2`)), "use a newer mneme"},
		{"no format", changed(replace(0, `"format": 1`, `"format": 0`)), "format 0"},
		{"an unknown field", changed(replace(0, `"format"`, `"fields": 1, "format"`)), "not in the form"},
		{"cut off in a record", good[:3000], "it is cut off"},
		{"cut off between entries", good[:len(good)-1024-512-512], "ends before blobs/|it is cut off"},
		{"cut off at its end", good[:len(good)-1024], "cut off at its end"},
		{"half an end", good[:len(good)-512], "cut off at its end"},
		{"something behind", append(bytes.Clone(good), "x"...), "is 0x78; want 0"},
		{"much behind", append(bytes.Clone(good), make([]byte, 1<<20)...), "1048576 bytes follow"},
		{"another archive behind", append(bytes.Clone(good), good...), "want 0"},
		{"an entry more", changed(func(all []entry) []entry { return append(all, all[2]) }), "want 0: only zeroes|follow its end"},
		{"an entry less", changed(func(all []entry) []entry { return all[:len(all)-1] }), "ends before blobs/"},
		{"an entry twice", sealed(func(all []entry) []entry { return append(all[:3], all[2:]...) }, nil), "where blobs/"},
		{"another order", sealed(func(all []entry) []entry { all[2], all[3] = all[3], all[2]; return all }, nil), "where blobs/"},
		{"another name", headed(func(h *tar.Header) { h.Name = "../../etc/passwd" }), `has the entry "../../etc/passwd" where`},
		{"a control character", headed(func(h *tar.Header) { h.Name = "a\x1b[2J" }), `has the entry "a\x1b[2J" where`},
		{"a link", headed(func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeSymlink, "/etc/passwd" }), "bytes; want"},
		{"a hard link", changed(func(all []entry) []entry {
			all[2].Typeflag, all[2].Linkname = tar.TypeLink, "x"
			return all
		}), "want"},
		{"a link target", headed(func(h *tar.Header) { h.Linkname = "x" }), "not a plain file"},
		{"an extension", headed(func(h *tar.Header) {
			h.Format = tar.FormatPAX
			h.PAXRecords = map[string]string{"SCHILY.xattr.user.x": "1"}
		}), "has the extension"},
		{"other bytes", changed(func(all []entry) []entry { all[2].data = strings.Repeat("x", len(all[2].data)); return all }), "is another one"},
		{"other bytes, sealed", sealed(func(all []entry) []entry { all[2].data = strings.Repeat("x", len(all[2].data)); return all }, nil), "is another one"},
		{"another store", changed(replace(0, `"name": "notes"`, `"name": "noteZ"`)), "disagree about the store"},
		{"another slug", changed(replace(0, `"slug": "notes"`, `"slug": "other"`)), "its root is"},
		{"a slug that is a path", changed(replace(0, `"slug": "notes"`, `"slug": "../x"`)), "is no slug"},
		{"an id that is a path", sealed(same, func(m *Manifest) { m.Store.ID = "../../../etc" }), "store id"},
		{"another id", sealed(same, func(m *Manifest) { m.Store.ID = versionlog.NewStoreID() }), "it is of store"},
		{"another limit", sealed(same, func(m *Manifest) { m.Store.Limits.MaxMemoryBytes++ }), "max_memory_bytes"},
		{"no limit", sealed(same, func(m *Manifest) { m.Store.Limits.MaxMemoryBytes = 1 << 60 }), "a memory of at most"},
		{"another epoch", sealed(same, func(m *Manifest) { m.Store.Epoch++ }), "epoch"},
		{"another digest", sealed(same, func(m *Manifest) { m.Digest[0]++ }), "its records end with commit"},
		{"another number", sealed(same, func(m *Manifest) { m.Seq++ }), "one of each commit"},
		{"numbers below 0", sealed(same, func(m *Manifest) { m.Blobs.Bytes = -1 }), "below 0"},
		{"another count", sealed(same, func(m *Manifest) { m.Blobs.Count++ }), "its manifest says"},
		{"another length", sealed(same, func(m *Manifest) { m.Listed.Bytes++ }), "want"},
		{"a lost content that is there", sealed(same, func(m *Manifest) { m.Lost = []cas.Digest{cas.Sum([]byte("one"))} }), "where blobs/"},
		{"a lost content of nobody", sealed(same, func(m *Manifest) { m.Lost = []cas.Digest{{1}} }), "nothing needs it"},
		{"a record less", sealed(func(all []entry) []entry {
			lines := strings.SplitAfter(all[1].data, "\n")
			all[1].data = strings.Join(lines[:len(lines)-2], "")
			return all
		}, func(m *Manifest) { m.Seq-- }), "its records end with"},
		{"records in another order", sealed(func(all []entry) []entry {
			lines := strings.SplitAfter(all[1].data, "\n")
			lines[3], lines[4] = lines[4], lines[3]
			all[1].data = strings.Join(lines, "")
			return all
		}, nil), "does not follow"},
		{"a record with another path", sealed(replace(1, `"path":"/a.md"`, `"path":"/b.md"`), nil), "payload of version"},
		{"a record with a space", sealed(replace(1, `"seq":`, `"seq": `), nil), "not in the form"},
		{"no end of a line", sealed(func(all []entry) []entry { all[1].data += "{"; return all }, nil), "its last line has no end"},
		{"another time", headed(func(h *tar.Header) { h.ModTime = time.Unix(1, 0); h.Uid = 7; h.Mode = 0 }), ""},
		{"zeroes behind", append(bytes.Clone(good), make([]byte, 8192)...), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Open(t.Context(), bytes.NewReader(test.data), int64(len(test.data)), nil)
			if test.want == "" {
				if err != nil {
					t.Errorf("%v; want an archive", err)
				}
				return
			}
			found := false
			for want := range strings.SplitSeq(test.want, "|") {
				found = found || err != nil && strings.Contains(err.Error(), want)
			}
			if !found || !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotArchive) && !errors.Is(err, versionlog.ErrFormat) {
				t.Errorf("%v; want %q", err, test.want)
			}
		})
	}
}

// TestFlippedBits: a bit that has flipped where the bytes of no entry are is found, and the error says
// where: in what fills up a block, in each header, one of a file of which an extension says the size
// among them, and at the end.
func TestFlippedBits(t *testing.T) {
	data, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	for _, good := range [][]byte{data, extended(t, data)} {
		file := &swapped{good}
		if _, err := Open(t.Context(), file, int64(len(good)), nil); err != nil {
			t.Fatal(err)
		}
		flip := func(at, bit int, want string) {
			t.Helper()
			file.data[at] ^= 1 << bit
			_, err := Open(t.Context(), file, int64(len(good)), nil)
			file.data[at] ^= 1 << bit
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotArchive) || !strings.Contains(err.Error(), want) {
				t.Errorf("bit %d of byte %d, %d of its block: %v; want %q", bit, at, at%512, err, want)
			}
		}
		for at := range good {
			block := at / 512 * 512
			isHeader := string(good[block+257:block+262]) == "ustar"
			switch {
			case isHeader && at-block >= 148 && at-block < 156: // its checksum
				for bit := range 8 {
					flip(at, bit, "")
				}
			case isHeader && at%64 == 0:
				flip(at, at%8, "")
			case !isHeader && good[at] == 0 && (at%512 == 0 || at%512 == 511 || good[at-1] != 0):
				flip(at, at%8, fmt.Sprintf("byte %d ", at))
			}
		}
	}
}

// extended has an archive say the size of its second file in an extension, as that of one larger
// than 8 GiB is.
func extended(t testing.TB, data []byte) []byte {
	t.Helper()
	all := entriesOf(t, data)
	size := strconv.Itoa(len(all[1].data))
	record := fmt.Sprintf("%d size=%s\n", len(size)+9, size)
	head := pack(t, []entry{{tar.Header{Typeflag: tar.TypeReg, Name: "PaxHeaders.0/" + all[1].Name}, record}})[:1024]
	head[156] = tar.TypeXHeader
	copy(head[148:], "        ")
	sum := 0
	for _, b := range head[:512] {
		sum += int(b)
	}
	copy(head[148:], fmt.Sprintf("%06o\x00 ", sum))
	at := bytes.Index(data, []byte(all[1].Name+"\x00"))
	return slices.Concat(data[:at], head, data[at:])
}

// swapped is a file that becomes another one.
type swapped struct{ data []byte }

func (s *swapped) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(s.data).ReadAt(p, at)
}

// TestChangedSince: if a file is changed after it was verified, only the verified bytes are
// used, though the new ones would verify as well.
func TestChangedSince(t *testing.T) {
	from := newPlace(t)
	st := from.fill("notes")
	good := from.export("notes", nil)
	long := bytes.Repeat([]byte{0}, len(good))
	erased := func() []byte { // has the same chain, and less in it
		v, err := st.Head(t.Context(), "/a.md")
		from.must(err)
		_, err = forget.Redact(t.Context(), nil, st, &forget.Request{Versions: []string{v.Parent}, Reason: "why"})
		from.must(err)
		past, err := from.OpenAt(t.Context(), st.Info().ID, v.Seq)
		from.must(err)
		var out bytes.Buffer
		_, err = Export(t.Context(), past, &out, nil)
		from.must(err)
		return out.Bytes()
	}()
	other := newPlace(t)
	other.fill("notes")
	for name, by := range map[string][]byte{"another history": other.export("notes", nil), "zeroes": long, "less": good[:len(good)/2], "erased": erased} {
		file := &swapped{good}
		a, err := Open(t.Context(), file, int64(len(good)), nil)
		from.must(err)
		file.data = by
		p := newPlace(t)
		if _, err := Import(t.Context(), p.Library, a, &ImportOptions{Author: author}); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		stores, err := versionlog.AllStores(t.Context(), p.log)
		if p.must(err); len(stores) > 0 {
			t.Errorf("%s: a store was made", name)
		}
	}
}

// FuzzOpen: of whatever bytes, either nothing is taken, or an archive that is imported and
// exported as the same.
func FuzzOpen(f *testing.F) {
	data, err := os.ReadFile(fixture)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add(extended(f, data))
	p := newPlace(f)
	p.fill("notes")
	f.Add(p.export("notes", &ExportOptions{Kind: Heads}))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := Open(t.Context(), bytes.NewReader(data), int64(len(data)), nil)
		if err != nil {
			return
		}
		p := newPlace(t)
		done, err := Import(t.Context(), p.Library, a, &ImportOptions{Author: author, KeepGoing: true})
		if err != nil {
			t.Fatal(err)
		}
		if a.Manifest.Kind == Heads {
			return
		}
		m, err := Export(t.Context(), p.open(done.Store.ID), io.Discard, &ExportOptions{KeepGoing: true})
		if err != nil || m.Root != a.Manifest.Root {
			t.Errorf("imported as %v, %v; want %v", m, err, a.Manifest)
		}
	})
}
