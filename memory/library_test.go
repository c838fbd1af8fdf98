package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mneme/memory"
	"mneme/versionlog"
)

// heard is a witness that writes down what it is told, and refuses what it is told to.
type heard struct {
	refuse bool
	said   []string
}

func (h *heard) Check(_ context.Context, _ versionlog.Log, s versionlog.Store) error {
	h.said = append(h.said, "check "+s.Slug)
	if h.refuse {
		return versionlog.ErrRewritten
	}
	return nil
}

func (h *heard) Saw(_ string, seq uint64, d versionlog.Digest) {
	h.said = append(h.said, fmt.Sprint("saw ", seq, " ", !d.IsZero()))
}

func (h *heard) Forget(string) { h.said = append(h.said, "forget") }

func (h *heard) want(t *testing.T, want ...string) {
	t.Helper()
	if got := fmt.Sprintf("%q", h.said); got != fmt.Sprintf("%q", want) {
		t.Errorf("the witness heard %s, want %q", got, want)
	}
	h.said = nil
}

// TestWitnessHears holds that a witness is asked before a store can be written,
// and hears of every commit after.
func TestWitnessHears(t *testing.T) {
	f := newFixture(t, nil)
	h := &heard{refuse: true}
	f.Lib.SetWitness(h)
	id := f.Info().ID
	if _, err := f.Lib.Open(t.Context(), id, author); !errors.Is(err, versionlog.ErrRewritten) {
		t.Errorf("open: %v, want ErrRewritten", err)
	}
	h.want(t, "check notes")
	reader, err := f.Lib.Open(t.Context(), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.refuse = false
	st, err := f.Lib.Open(t.Context(), id, author)
	if err != nil {
		t.Fatal(err)
	}
	h.want(t, "check notes")
	for _, text := range []string{"one", "one", "two"} {
		if _, err := st.Write(t.Context(), "/a", []byte(text), versionlog.ExpectAny()); err != nil {
			t.Fatal(err)
		}
	}
	h.want(t, "saw 1 true", "saw 1 true", "saw 2 true")
	if _, err := st.Write(t.Context(), "/a", []byte("three"), versionlog.ExpectAbsent()); err == nil {
		t.Error("written over what is there")
	}
	h.want(t)
	errDone := errors.New("done")
	follow := func(st *memory.Store) {
		t.Helper()
		err := st.Follow(t.Context(), versionlog.Tip{}, func(c *versionlog.Commit) error {
			if c.Seq == 2 {
				return errDone
			}
			return nil
		})
		if !errors.Is(err, errDone) {
			t.Fatal(err)
		}
	}
	follow(reader)
	h.want(t)
	follow(st)
	h.want(t, "saw 1 true")
	bytes := int64(7)
	if _, err := f.Lib.UpdateStore(t.Context(), id, versionlog.StoreUpdate{QuotaBytes: &bytes}, author.Actor); err != nil {
		t.Fatal(err)
	}
	h.want(t, "check notes", "saw 3 true")
	h.refuse = true
	_, err = f.Lib.UpdateStore(t.Context(), id, versionlog.StoreUpdate{QuotaBytes: &bytes}, author.Actor)
	if archiving := f.Lib.ArchiveStore(t.Context(), id, author.Actor); !errors.Is(err, versionlog.ErrRewritten) || !errors.Is(archiving, versionlog.ErrRewritten) {
		t.Errorf("update: %v, archive: %v, want ErrRewritten", err, archiving)
	}
	h.want(t, "check notes", "check notes")
	if err := f.Lib.DeleteStore(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	h.want(t, "forget")
}

// TestFindStoreByItsNewName: a store is found by whatever name it was given, also one that
// no directory could be named after.
func TestFindStoreByItsNewName(t *testing.T) {
	f := newFixture(t, nil)
	id := f.Info().ID
	for _, name := range []string{"メモ", "Team Notes", "+", "notes"} {
		if _, err := f.Lib.UpdateStore(t.Context(), id, versionlog.StoreUpdate{Name: &name}, author.Actor); err != nil {
			t.Fatal(err)
		}
		if s, err := f.Lib.FindStore(t.Context(), name); err != nil || s.ID != id {
			t.Errorf("by the name %q: %v, %v", name, s.ID, err)
		}
	}
	if _, err := f.Lib.FindStore(t.Context(), "メモ"); !errors.Is(err, memory.ErrBadName) {
		t.Errorf("by the name that it has no longer: %v, want ErrBadName", err)
	}
}

// TestLongSlug: a store whose long name is taken has a slug that a directory can have.
func TestLongSlug(t *testing.T) {
	f := newFixture(t, nil)
	for _, name := range []string{strings.Repeat("x", memory.MaxStoreName), strings.Repeat("x-", memory.MaxStoreName/2)} {
		for range 2 {
			s, err := f.Lib.CreateStore(t.Context(), name, &memory.StoreOptions{AnySlug: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := memory.CheckForeign(s); err != nil || len(s.Slug) > 255 {
				t.Errorf("a slug of %d bytes: %v", len(s.Slug), err)
			}
		}
	}
}
