package sqlitelog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/cas/sizecas"
	"mneme/versionlog"
)

// packSome packs until there is nothing left to do, in so many steps.
func packSome(t *testing.T, l *Log, steps int) {
	t.Helper()
	for range steps {
		worked, err := l.packer.step(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if !worked {
			return
		}
	}
	t.Fatal("packing does not end")
}

// TestPackOnDamage: packing ends on rows that lean on themselves, on each other or on
// nothing, and loses nothing that is whole.
func TestPackOnDamage(t *testing.T) {
	for _, damage := range []string{
		`base = id`, `base = 4711`, `base = (SELECT max(id) FROM packed)`, `base = id, place = 3`, `place = -5`, `place = 4711`, `base = NULL`,
		`data = NULL`, `data = x'00'`, `sha256 = zeroblob(32)`,
	} {
		t.Run(damage, func(t *testing.T) {
			dir := t.TempDir()
			l := openTest(t, dir, nil)
			s := addStore(t, l, "s")
			all := versionsOf(t, l, s.ID, "/a", 8)
			packSome(t, l, 9)
			change(t, dir, `UPDATE packed SET `+damage+` WHERE data IS NOT NULL`)
			written := versionsOf(t, l, s.ID, "/b", 4)
			for _, content := range []string{all[1], all[6], all[0]} { // heads again
				written = append(written, versionsOf(t, l, s.ID, "/a", 3)...)
				if _, err := l.Commit(t.Context(), s.ID, withContent("/a", content, versionlog.ExpectAny())); err != nil {
					t.Fatal(err)
				}
				written = append(written, content)
				packSome(t, l, 9)
			}
			for _, content := range written {
				wantBlob(t, l.Blobs(s.ID), content)
			}
		})
	}
}

// TestPackBesideDamage: a store that cannot be packed does not keep others from it, and
// a content that cannot be packed does not keep others of its store from it.
func TestPackBesideDamage(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("broken")
	var bad string
	l := openTest(t, dir, &Options{Files: func(id string) (Files, error) {
		if id == bad {
			return nil, broken
		}
		return nil, nil
	}})
	first, second := addStore(t, l, "first"), addStore(t, l, "second")
	bad = first.ID
	versionsOf(t, l, first.ID, "/a", 3)
	large := strings.Repeat("large ", maxPacked/6+1)
	if _, err := l.Commit(t.Context(), second.ID, withContent("/large", large, versionlog.ExpectAny())); err != nil {
		t.Fatal(err)
	}
	change(t, dir, `UPDATE versions SET size = 200 WHERE path = '/large'`)
	commitContent(t, l, second.ID, "/large", "small")
	all := versionsOf(t, l, second.ID, "/a", 3)
	if _, err := l.packer.step(t.Context(), 1); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
	rowOf(t, l, second.ID, all[0])
	wantBlob(t, l.Blobs(second.ID), large)
}

// TestRemoveLargeContent: what leans on a content in a file stays readable when that is
// removed for good.
func TestRemoveLargeContent(t *testing.T) {
	files := memcas.New()
	l := openTest(t, t.TempDir(), &Options{Files: func(string) (Files, error) { return files, nil }})
	s := addStore(t, l, "s")
	b := sizecas.New(l.Blobs(s.ID), MaxContent, files)
	large := string(words(rand.New(rand.NewPCG(5, 5)), 200_000))
	var all []cas.Digest
	for i := range 3 {
		d, err := b.Put(t.Context(), fmt.Append(nil, large, i))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
		put(t, l, s.ID, "/a", fmt.Sprint(large, i))
	}
	packSome(t, l, 9)
	if err := b.Delete(t.Context(), all[2]); err != nil {
		t.Fatal(err)
	}
	if has, err := b.Has(t.Context(), all[2]); err != nil || has {
		t.Errorf("what is removed is there: %v, %v", has, err)
	}
	for _, d := range all[:2] {
		if _, err := b.Get(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
}

// TestPackingGoesOn: a slice of versions that leave nothing to pack is not looked at again
// by the next process.
func TestPackingGoesOn(t *testing.T) {
	l := openTest(t, t.TempDir(), nil)
	s := addStore(t, l, "s")
	p := &versionlog.Proposal{Key: versionlog.NewKey()}
	for i := range sliceVersions + 1 {
		p.Changes = append(p.Changes, versionlog.Change{
			Action: versionlog.Put, Path: fmt.Sprint("/", i), Digest: cas.Sum(nil), Expect: versionlog.ExpectAbsent(),
		})
	}
	if _, err := l.Commit(t.Context(), s.ID, p); err != nil {
		t.Fatal(err)
	}
	if worked, err := l.packer.step(t.Context(), 1); err != nil || !worked {
		t.Fatal(worked, err)
	}
	if at, err := progressIn(t.Context(), l.db, 1); err != nil || at.cursor != (cursor{1, sliceVersions}) {
		t.Errorf("packing has come to %v, %v", at, err)
	}
}

// TestEditsAreSmall: the frame of a content with a few edits is small, whatever its size.
func TestEditsAreSmall(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, size := range []int{4 << 10, fastBelow, 100 << 10, slowFrom, 2 << 20, 4 << 20} {
		base := words(r, size)
		frame, err := new(codec).compress(edited(r, edited(r, base)), base)
		if err != nil || len(frame) > 256+size/1000 {
			t.Errorf("two edits to %d bytes take %d, %v", size, len(frame), err)
		}
	}
}

// TestFramesOfOneCodec: a codec that has encoded others makes frames that another one decodes.
func TestFramesOfOneCodec(t *testing.T) {
	r, all := rand.New(rand.NewPCG(8, 8)), &codec{}
	for _, size := range []int{0, 200, 4 << 10, 300, fastBelow, maxBlock - 1, maxBlock, 4 << 10, maxBlock + 1, slowFrom, 200} {
		base := words(r, size)
		data := edited(r, base)
		for _, on := range [][]byte{base, nil, base} {
			frame, err := all.compress(data, on)
			if err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			if back, err := new(codec).decompress(frame, on); err != nil || !bytes.Equal(back, data) {
				t.Errorf("%d bytes: decoded to %d, %v", size, len(back), err)
			}
		}
	}
}

// TestDamagedBase: the error of a content that cannot be read since its base is damaged names the
// base, so that a caller that has its bytes can put them back.
func TestDamagedBase(t *testing.T) {
	for _, c := range []struct {
		base   int // the content that is damaged
		damage string
	}{
		{1, `UPDATE packed SET data = x'00' WHERE sha256 = %[1]s`},
		{1, `UPDATE packed SET data = (SELECT data FROM packed WHERE place = 0 AND data IS NOT NULL) WHERE sha256 = %[1]s`}, // a sound frame
		{3, `UPDATE blobs SET data = x'00' WHERE sha256 = %[1]s`},
	} {
		t.Run(c.damage, func(t *testing.T) {
			dir := t.TempDir()
			l := openTest(t, dir, nil)
			s := addStore(t, l, "s")
			all := versionsOf(t, l, s.ID, "/a", 4)
			packSome(t, l, 9)
			base := cas.Sum([]byte(all[c.base]))
			change(t, dir, fmt.Sprintf(c.damage, fmt.Sprintf("x'%v'", base)))
			b := l.Blobs(s.ID)
			_, err := b.Get(t.Context(), cas.Sum([]byte(all[2])))
			var needs *cas.NeedsError
			if !errors.As(err, &needs) || needs.Blob != base || !errors.Is(err, cas.ErrCorrupt) {
				t.Errorf("error is %v, want one that names %v", err, base)
			}
			if _, err := b.Put(t.Context(), []byte(all[c.base])); err != nil {
				t.Fatal(err)
			}
			for _, content := range all {
				wantBlob(t, b, content)
			}
		})
	}
}
