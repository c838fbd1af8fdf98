package memory_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
)

// unseen are names that look like others, or like nothing.
var unseen = []string{
	"\u3164", "a\u3164", "\u115fa", "\u1160", "a\uffa0b", "\u2800", "a\u034fb", "\u17b4", "\U00016fe4", "\U0001d159", "\U00013441",
	"a\ufe0f", "\ufe0f", " \ufe0f", "\ufe00x", "a\ufe01", "a\U000e0100", "\u180b", "❤\ufe0f\ufe0f", "\ufff0x", "a\ufffeb", "\ufdd0", "\U0010ffff",
}

// blank are names that show as nothing, with characters that names may have.
var blank = []string{" ", "   ", "\u00a0", "\u3000", "\u202f", "\u1680", " \u3000\u2003 "}

// spelled are names that people have, with characters of the same kinds.
var spelled = []string{
	"❤\ufe0f.md", "1\ufe0f\u20e3", "ℹ\ufe0f", "‼\ufe0e", "👩🏽\u200d🚀", "🏳\ufe0f\u200d🌈", "🇩🇪",
	"می\u200cخواهم.md", "क्\u200dष", "辻\U000e0100", "ᠠ\u180b", "က\ufe00",
	"e\u0301", "שָׁ֑", "Screenshot 3.14.15\u202fPM.png", "記録\u3000一", "a\u00a0b", " leading", "trailing ", "\uf8ff", "a\uf03ab", "\U0001fae9", "z" + strings.Repeat("\u0335", 9),
}

// TestNewNames holds which names new memories may have; they are the same by
// whatever way a memory comes there.
func TestNewNames(t *testing.T) {
	f := newFixture(t, nil)
	f.Put("/from", "x", versionlog.ExpectAny())
	for _, name := range slices.Concat(unseen, blank) {
		for _, path := range []string{"/" + name, "/dir/" + name + "/x"} {
			if v, err := f.Write(t.Context(), path, []byte("x"), versionlog.ExpectAny()); !errors.Is(err, memory.ErrBadPath) {
				t.Errorf("write %q: %v, %v; want ErrBadPath", path, v.ID, err)
			}
			if _, err := f.Rename(t.Context(), "/from", path, nil); !errors.Is(err, memory.ErrBadPath) {
				t.Errorf("rename to %q: %v, want ErrBadPath", path, err)
			}
		}
	}
	for _, name := range unseen {
		if _, err := f.Lib.CreateStore(t.Context(), "store "+name, nil); !errors.Is(err, memory.ErrBadName) {
			t.Errorf("store %q: %v, want ErrBadName", name, err)
		}
	}
	for _, name := range spelled {
		if _, err := f.Write(t.Context(), "/"+name, []byte("x"), versionlog.ExpectAbsent()); err != nil {
			t.Errorf("write %q: %v", name, err)
		}
	}
}

// TestNamesFromBeforeTheRule holds that a memory whose name new ones may not have
// is read, changed, moved, removed and brought back as any other.
func TestNamesFromBeforeTheRule(t *testing.T) {
	f := newFixture(t, nil)
	const path = "/d/a\u3164"
	p := &versionlog.Proposal{Key: versionlog.NewKey(), Actor: author.Actor}
	first := f.Put("/seed", "one", versionlog.ExpectAny())
	p.Changes = []versionlog.Change{{Action: versionlog.Put, Path: path, Digest: first.Digest, Size: first.Size, Expect: versionlog.ExpectAbsent()}}
	if _, err := f.Log.Commit(t.Context(), f.Info().ID, p); err != nil {
		t.Fatal(err)
	}
	id := f.WantContent(path, "one").MemoryID
	if v := f.Put(path, "two", versionlog.ExpectAny()); v.MemoryID != id {
		t.Errorf("written anew as %s, was %s", v.MemoryID, id)
	}
	if _, err := f.Rename(t.Context(), "/d", "/e", nil); err != nil {
		t.Fatal(err)
	}
	two := f.WantContent("/e/a\u3164", "two")
	if _, err := f.Remove(t.Context(), two.Path, versionlog.ExpectAny()); err != nil {
		t.Fatal(err)
	}
	if back, err := f.Restore(t.Context(), two.Path, two); err != nil || back.MemoryID != id {
		t.Errorf("brought back as %s, %v; want %s", back.MemoryID, err, id)
	}
}

// Restore restores a version at a path.
func (f *fixture) Restore(ctx context.Context, path string, v versionlog.Version) (versionlog.Version, error) {
	c, err := history.Restoring(ctx, f.Store, path, v)
	if err != nil {
		return versionlog.Version{}, err
	}
	commit, err := f.Batch(ctx, []memory.Change{c}, &memory.CommitOptions{Message: "restore " + v.ID})
	if err != nil {
		return versionlog.Version{}, err
	}
	if len(commit.Versions) == 0 {
		return f.Head(ctx, path)
	}
	return commit.Versions[0], nil
}
