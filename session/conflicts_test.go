package session

import (
	"fmt"
	"testing"
	"time"

	"mneme/session/conflict"
	"mneme/versionlog"
)

// TestResolve: a conflict ends as its resolution says, or stays.
func TestResolve(t *testing.T) {
	for _, test := range []struct {
		take Take
		want string
	}{{Yours, "mine\nb\nc\n"}, {Theirs, "a\nb\ntheirs\n"}, {Merged, "mine\nb\ntheirs\n"}, {Given, "given"}} {
		r := direct(t, keeping(t))
		r.theirs("/f", "a\nb\nc\n")
		r.mustRead("/f", "a\nb\nc\n")
		r.theirs("/f", "a\nb\ntheirs\n")
		_, err := r.s.Write(t.Context(), "/f", []byte("mine\nb\nc\n"), nil)
		id := wantLost(t, err, Changed).Conflict
		conflicts := r.s.Conflicts()
		about, texts, err := conflicts.Get(id)
		if err != nil || about.Path != "/f" || string(texts.Yours) != "mine\nb\nc\n" || string(texts.Base) != "a\nb\nc\n" || string(texts.Theirs) != "a\nb\ntheirs\n" {
			t.Errorf("%+v, %q, %v", about, texts, err)
		}
		v, err := conflicts.Resolve(t.Context(), id, Resolution{Take: test.take, Data: []byte("given")})
		r.must(err)
		if want := fmt.Sprintf("resolves conflict %d, taking %s", id, test.take); test.take != Theirs && v.Message != want {
			t.Errorf("message %q, want %q", v.Message, want)
		}
		r.wantText("/f", test.want)
		r.wantKept()
		if own := conflicts.Own(); len(own) > 0 {
			t.Errorf("still open: %v", own)
		}
		_, err = conflicts.Resolve(t.Context(), id, Resolution{})
		wantErr(t, err, conflict.ErrNotFound)
	}
}

// TestResolveIsConditional: what has changed again is not replaced, and what cannot be
// merged stays.
func TestResolveIsConditional(t *testing.T) {
	r := direct(t, keeping(t), "/f")
	r.mustRead("/f", "/f")
	r.theirs("/f", "theirs")
	_, err := r.s.Write(t.Context(), "/f", []byte("mine"), nil)
	id := wantLost(t, err, Changed).Conflict
	now := r.theirs("/f", "theirs again")
	_, err = r.s.Conflicts().Resolve(t.Context(), id, Resolution{Take: Yours})
	wantErr(t, err, versionlog.ErrConflict)
	_, err = r.s.Conflicts().Resolve(t.Context(), id, Resolution{Take: Merged})
	wantErr(t, err, ErrSameLines)
	r.wantKept("mine")
	expect := versionlog.ExpectVersion(now.ID)
	_, err = r.s.Conflicts().Resolve(t.Context(), id, Resolution{Take: Yours, Expect: &expect})
	r.must(err)
	r.wantText("/f", "mine")
}

// TestListExpires: a conflict that has been kept for its life is listed no more.
func TestListExpires(t *testing.T) {
	r := direct(t, keeping(t))
	r.s.Keep(t.Context(), Loss{Path: "/f", Yours: []byte("mine")})
	r.s.now = func() time.Time { return time.Now().Add(conflict.Life + time.Hour) }
	if list, err := r.s.Conflicts().List(true); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestDismiss: a conflict that is dismissed is listed no more, and can still be read.
func TestDismiss(t *testing.T) {
	r := direct(t, keeping(t))
	id := r.s.Keep(t.Context(), Loss{Path: "/f", Yours: []byte("mine")})
	conflicts := r.s.Conflicts()
	r.must(conflicts.Dismiss(id, ByDismissing))
	wantErr(t, conflicts.Dismiss(id+1, ByDismissing), conflict.ErrNotFound)
	conflicts.AdoptOne("/g", id+1)
	if !conflicts.IsOwn(id+1) || conflicts.Own()[id+1] != "/g" {
		t.Errorf("own are %v", conflicts.Own())
	}
	wantErr(t, conflicts.Dismiss(id+1, ByDismissing), conflict.ErrNotFound) // which has been removed meanwhile
	open, err := conflicts.List(false)
	r.must(err)
	all, err := conflicts.List(true)
	r.must(err)
	if len(open) != 0 || len(all) != 1 || all[0].How != ByDismissing || len(conflicts.Own()) != 0 || r.s.Journal().Len() != 0 {
		t.Errorf("%v, %v", open, all)
	}
}

// TestConflictWithSecret: what a store refuses for a credential in it is shown to its session and to
// people, and to no other session.
func TestConflictWithSecret(t *testing.T) {
	opts := keeping(t)
	r := direct(t, opts)
	rule := string(versionlog.SecretsRefuse)
	_, err := r.lib.UpdateStore(t.Context(), r.mine.Info().ID, versionlog.StoreUpdate{Secrets: &rule}, versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"})
	r.must(err)
	id := r.s.Keep(t.Context(), Loss{Path: "/f", Yours: []byte("AK" + "IA" + "Q7XK2M5PLW3RT6ZB")})
	plain := r.s.Keep(t.Context(), Loss{Path: "/g", Yours: []byte("plain")})
	other := New(r.other, &Options{ID: "other", Conflicts: opts.Conflicts})
	defer other.Close()
	for name, of := range map[string]struct {
		*Conflicts
		want int
	}{"its own": {r.s.Conflicts(), 2}, "another": {other.Conflicts(), 1}, "people": {other.ConflictsForPeople(), 2}} {
		list, err := of.List(true)
		if err != nil || len(list) != of.want || list[of.want-1].ID != plain {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
		if _, _, err := of.Get(id); (err == nil) != (of.want == 2) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = other.Conflicts().Resolve(t.Context(), id, Resolution{Take: Yours, Confirmed: true})
	wantErr(t, err, conflict.ErrNotFound)
	wantErr(t, other.Conflicts().Dismiss(id, ByDismissing), conflict.ErrNotFound)
}
