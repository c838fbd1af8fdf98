package sizecas_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"mneme/cas"
	"mneme/cas/castest"
	"mneme/cas/memcas"
	"mneme/cas/sizecas"
)

const limit = 100

type pair struct {
	*sizecas.Store
	small, large *memcas.Store
}

func newPair() pair {
	small, large := memcas.New(), memcas.New()
	return pair{sizecas.New(small, limit, large), small, large}
}

func put(t *testing.T, s cas.Store, data []byte) cas.Digest {
	t.Helper()
	d, err := s.Put(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func has(t *testing.T, s cas.Store, d cas.Digest) bool {
	t.Helper()
	ok, err := s.Has(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestConformance(t *testing.T) {
	pairs := make(map[cas.Store]pair)
	castest.Run(t, castest.Config{
		Open: func(*testing.T) cas.Store {
			p := newPair()
			pairs[p.Store] = p
			return p.Store
		},
		Corrupt: func(t *testing.T, s cas.Store, d cas.Digest, data []byte) {
			p := pairs[s]
			if has(t, p.small, d) {
				p.small.Corrupt(d, data)
			} else {
				p.large.Corrupt(d, data)
			}
		},
	})
}

func TestSizesGoTheirWays(t *testing.T) {
	p := newPair()
	for size, small := range map[int]bool{0: true, limit: true, limit + 1: false} {
		d := put(t, p, bytes.Repeat([]byte{'x'}, size))
		if has(t, p.small, d) != small || has(t, p.large, d) == small {
			t.Errorf("%d bytes are in the small store: %v, in the large one: %v", size, has(t, p.small, d), has(t, p.large, d))
		}
	}
}

// TestFoundInEither: blobs that are in the other store than their size says, as
// those of an earlier bound are, are read, listed once, and deleted.
func TestFoundInEither(t *testing.T) {
	p := newPair()
	data := []byte("small, but put where the large ones are")
	d := put(t, p.large, data)
	if got, err := p.Get(t.Context(), d); err != nil || !bytes.Equal(got, data) {
		t.Errorf("Get: %q, %v", got, err)
	}
	put(t, p, data)
	n := 0
	for _, err := range p.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("a blob in both stores is listed %d times", n)
	}
	if err := p.Delete(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if has(t, p.small, d) || has(t, p.large, d) {
		t.Error("a store has what was deleted")
	}
}

// TestDamageOfOneCopy: a good copy is served while there is one, whichever it
// is; with two that are damaged, or one, the blob is.
func TestDamageOfOneCopy(t *testing.T) {
	data, bad := []byte("good"), []byte("bad")
	for _, c := range []struct {
		name         string
		small, large []byte // nil: none there
		want         error
	}{
		{"small damaged", bad, data, nil},
		{"large damaged", data, bad, nil},
		{"both damaged", bad, bad, cas.ErrCorrupt},
		{"the only one, small, damaged", bad, nil, cas.ErrCorrupt},
		{"the only one, large, damaged", nil, bad, cas.ErrCorrupt},
		{"none", nil, nil, cas.ErrNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair()
			d := cas.Sum(data)
			for s, stored := range map[*memcas.Store][]byte{p.small: c.small, p.large: c.large} {
				if stored != nil {
					put(t, s, data)
					s.Corrupt(d, stored)
				}
			}
			if got, err := p.Get(t.Context(), d); !errors.Is(err, c.want) || err == nil && !bytes.Equal(got, data) {
				t.Errorf("Get: %q, %v, want %v", got, err, c.want)
			}
			put(t, p, data)
			if got, err := p.Get(t.Context(), d); err != nil || !bytes.Equal(got, data) {
				t.Errorf("Get after Put: %q, %v", got, err)
			}
		})
	}
}

// moving is a store of large blobs that moves each one to the small ones just before it
// is looked for.
type moving struct {
	*memcas.Store
	small *memcas.Store
}

func (m moving) move(ctx context.Context, d cas.Digest) {
	if data, err := m.Store.Get(ctx, d); err == nil {
		_, _ = m.small.Put(ctx, data)
		_ = m.Store.Delete(ctx, d)
	}
}

func (m moving) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	m.move(ctx, d)
	return m.Store.Get(ctx, d)
}

func (m moving) Has(ctx context.Context, d cas.Digest) (bool, error) {
	m.move(ctx, d)
	return m.Store.Has(ctx, d)
}

// TestMovedMeanwhile: a blob that goes from the large ones to the small ones is found.
func TestMovedMeanwhile(t *testing.T) {
	for name, look := range map[string]func(s *sizecas.Store, d cas.Digest) error{
		"Get": func(s *sizecas.Store, d cas.Digest) error {
			_, err := s.Get(t.Context(), d)
			return err
		},
		"Has": func(s *sizecas.Store, d cas.Digest) error {
			found, err := s.Has(t.Context(), d)
			if !found {
				err = errors.Join(err, cas.ErrNotFound)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			small, large := memcas.New(), memcas.New()
			d, err := large.Put(t.Context(), []byte("large"))
			if err != nil {
				t.Fatal(err)
			}
			if err := look(sizecas.New(small, 3, moving{large, small}), d); err != nil {
				t.Error(err)
			}
		})
	}
}
