package session

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/versionlog"
)

// TestEdit: an edit is done again when another session was faster, and never loses.
func TestEdit(t *testing.T) {
	r := direct(t, keeping(t), "/f")
	add := func(seen Seen) ([]byte, error) { return append(seen.Content, "+mine"...), nil }
	r.log.Next(logfault.BeforeCommit, func() { r.theirs("/f", "theirs") })
	v, err := r.s.Edit(t.Context(), "/f", add, nil)
	r.must(err)
	r.wantText("/f", "theirs+mine")
	r.mustWrite("/f", "known") // since it was seen
	if same, err := r.s.Edit(t.Context(), "/f", func(seen Seen) ([]byte, error) { return seen.Content, nil }, nil); err != nil || same.Seq != v.Seq+1 {
		t.Errorf("an edit that changes nothing: %+v, %v", same, err)
	}
	failed := errors.New("no")
	_, err = r.s.Edit(t.Context(), "/f", func(Seen) ([]byte, error) { return nil, failed }, nil)
	wantErr(t, err, failed)
	_, err = r.s.Edit(t.Context(), "/n", func(seen Seen) ([]byte, error) {
		if seen.Version != nil || seen.Content != nil {
			t.Errorf("of no memory it is given %+v", seen)
		}
		return []byte("new"), nil
	}, nil)
	r.must(err)
	if v, err := r.s.Edit(t.Context(), "/none", func(Seen) ([]byte, error) { return nil, nil }, nil); err != nil || v.ID != "" {
		t.Errorf("%+v, %v", v, err)
	}
	r.mustWrite("/g", "one\n")
	r.theirs("/g", "one\ntwo\n")
	_, err = r.s.Edit(t.Context(), "/g", add, nil)
	r.must(err)
	_, err = r.s.Write(t.Context(), "/g", []byte("ONE\n"), nil) // by a program that has not seen what the edit has
	wantLost(t, err, Changed)
	r.wantKept("ONE\n")
	expect := versionlog.ExpectAbsent()
	edits := 0
	_, err = r.s.Edit(t.Context(), "/f", func(Seen) ([]byte, error) { edits++; return nil, nil }, &WriteOptions{Expect: &expect})
	if wantErr(t, err, versionlog.ErrConflict); edits != 1 {
		t.Errorf("an edit under a condition that fails was done %d times", edits)
	}
	r.wantKept("ONE\n")
}

// TestEditSeen: an edit is told what the session knew when it began. The session does not know a
// version that is made from another session's, until it reads it.
func TestEditSeen(t *testing.T) {
	r := direct(t, keeping(t), "/f")
	known := r.mustRead("/f", "/f")
	r.log.Next(logfault.BeforeCommit, func() { r.theirs("/f", "theirs") })
	tries := 0
	add := func(seen Seen) ([]byte, error) {
		if seen.Try != tries || !seen.Known.Head().Is(&known) || string(seen.Content) != []string{"/f", "theirs"}[tries] {
			t.Errorf("try %d is done on %+v", tries, seen)
		}
		tries++
		return append(seen.Content, "+mine"...), nil
	}
	v, err := r.s.Edit(t.Context(), "/f", add, nil)
	r.must(err)
	if k := r.s.known.Of("/f"); tries != 2 || !k.Stale(memory.NewHead(&v)) || !k.Head().Is(&known) {
		t.Errorf("after %d tries it knows %+v", tries, k)
	}
	_, err = r.s.Remove(t.Context(), "/f", nil)
	wantLost(t, err, Changed)
	r.mustRead("/f", "theirs+mine")
	v, err = r.s.Edit(t.Context(), "/f", func(Seen) ([]byte, error) { return []byte("mine"), nil }, nil)
	r.must(err)
	if k := r.s.known.Of("/f"); !k.Head().Is(&v) {
		t.Errorf("of its own version it knows %+v", k)
	}
}

// TestEditTwice: two sessions that make the same change at the same time make two.
func TestEditTwice(t *testing.T) {
	r := direct(t, nil, "/f")
	add := func(seen Seen) ([]byte, error) { return append(seen.Content, "+1"...), nil }
	r.log.Next(logfault.BeforeCommit, func() { r.theirs("/f", "/f+1") })
	_, err := r.s.Edit(t.Context(), "/f", add, nil)
	r.must(err)
	r.wantText("/f", "/f+1+1")
}

// TestRefuse: a text that a face made from an earlier read is kept, once, and the path stays
// refused until it is read.
func TestRefuse(t *testing.T) {
	o := keeping(t)
	o.Name = func(path string) string { return "/memories" + path }
	r := direct(t, o, "/f")
	known := r.mustRead("/f", "/f")
	theirs := r.theirs("/f", "theirs")
	for range 2 {
		e := r.s.Refuse(t.Context(), "/f", memory.NewHead(&known), memory.NewHead(&theirs), []byte("mine"))
		if want := `^/memories/f changed since you read it \(version 2 by session "other", .* ago\); read it again and redo your edit; your text is kept in conflict 1$`; e.Reason != Changed || e.Conflict != 1 || !regexp.MustCompile(want).MatchString(e.Error()) {
			t.Errorf("%+v: %v", e, e)
		}
	}
	r.wantKept("mine")
	if !r.s.known.Of("/f").WasRefused() || r.s.journal.Len() != 1 {
		t.Errorf("%+v, %s", r.s.known.Of("/f"), r.s.journal.Lines())
	}
	e := r.s.Refuse(t.Context(), "/g", memory.NewHead(&known), nil, []byte("mine"))
	if e.Reason != Gone || e.Conflict != 2 || !strings.HasPrefix(e.Error(), "/memories/g was removed or renamed since you read it; ") {
		t.Errorf("%+v: %v", e, e)
	}
	if got := r.s.Changed("/f", nil, memory.NewHead(&theirs)); !strings.HasPrefix(got, "/memories/f changed while you made it (version 2 ") {
		t.Error(got)
	}
}

// TestRemoveTreeAdmits: a tree is removed if each memory in it could be.
func TestRemoveTreeAdmits(t *testing.T) {
	r := direct(t, nil, "/d/f", "/d/g", "/dx", "/gone/f", "/gone/g")
	r.mustRead("/d/f", "/d/f")
	r.mustRead("/dx", "/dx")
	r.mustRead("/gone/f", "/gone/f")
	r.theirs("/dx", "theirs")
	r.theirs("/d/g", "theirs") // never read
	r.theyRemove("/gone/f")
	_, err := r.s.RemoveTree(t.Context(), "/gone", nil)
	r.must(err)
	r.theirs("/d/f", "theirs")
	_, err = r.s.RemoveTree(t.Context(), "/d", nil)
	if lost := wantLost(t, err, Changed); lost.Path != "/d/f" {
		t.Errorf("%+v", lost)
	}
	r.wantText("/d/g", "theirs")
	r.mustRead("/d/f", "theirs")
	c, err := r.s.RemoveTree(t.Context(), "/d", nil)
	r.must(err)
	if len(c.Versions) != 2 {
		t.Errorf("%+v", c)
	}
	r.theirs("/d/f", "anew") // where the session knows that nothing is
	_, err = r.s.RemoveTree(t.Context(), "/d", nil)
	wantLost(t, err, Changed)
}
