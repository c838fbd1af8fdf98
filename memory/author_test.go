package memory_test

import (
	"errors"
	"maps"
	"testing"

	"mneme/memory"
	"mneme/versionlog"
)

// TestAuthorOfACommit: a commit is in the name of whom it says, or else of the author for
// whom the store was opened; key and notes are in the history as they were proposed.
func TestAuthorOfACommit(t *testing.T) {
	f := newFixture(t, nil)
	alice := versionlog.Actor{Kind: versionlog.ActorAPIKey, ID: "alice"}
	meta := map[string]string{"model": "m1", "trust": "low"}
	for name, test := range map[string]struct {
		opts    memory.CommitOptions
		actor   versionlog.Actor
		session string
	}{
		"nobody":               {memory.CommitOptions{Key: "k1"}, author.Actor, author.Session},
		"an actor":             {memory.CommitOptions{Key: "k2", Actor: alice}, alice, ""},
		"an actor, in session": {memory.CommitOptions{Key: "k3", Actor: alice, Session: "s9", Meta: meta, Message: "why"}, alice, "s9"},
	} {
		c, err := f.Batch(t.Context(), []memory.Change{{Action: versionlog.Put, Path: "/a", Content: []byte(name), Expect: versionlog.ExpectAny()}}, &test.opts)
		if err != nil {
			t.Fatal(err)
		}
		if c.Actor != test.actor || c.Session != test.session || c.Versions[0].Actor != test.actor || c.Key != test.opts.Key ||
			c.Message != test.opts.Message || !maps.Equal(c.Meta, test.opts.Meta) {
			t.Errorf("%s: the commit is %+v", name, c)
		}
	}
}

// TestFencedAfterPromotion: a process that opened a store before it was promoted can no
// longer write, and one that opens it now can.
func TestFencedAfterPromotion(t *testing.T) {
	f := newFixture(t, nil)
	f.Put("/a", "1", versionlog.ExpectAny())
	id := f.Info().ID
	if _, err := f.Log.Commit(t.Context(), id, &versionlog.Proposal{Key: versionlog.NewKey(), Event: versionlog.StorePromoted()}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(t.Context(), "/a", []byte("2"), versionlog.ExpectAny()); !errors.Is(err, versionlog.ErrFenced) {
		t.Errorf("a store that was opened before ended with %v, want ErrFenced", err)
	}
	f.WantContent("/a", "1")
	st, err := f.Lib.Open(t.Context(), id, author)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Write(t.Context(), "/a", []byte("2"), versionlog.ExpectAny()); err != nil {
		t.Error(err)
	}
}

// TestCreation: the history of a store begins with the actor that created it, if one is
// given.
func TestCreation(t *testing.T) {
	f := newFixture(t, nil)
	meta := map[string]string{"owner": "me"}
	s, err := f.Lib.CreateStore(t.Context(), "Team", &memory.StoreOptions{Actor: author.Actor, Metadata: meta})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]int{s.ID: 1, f.Info().ID: 0} {
		n := 0
		for c, err := range f.Log.Commits(t.Context(), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; c.Event == nil || c.Event.Kind != versionlog.EventCreated || c.Actor != author.Actor {
				t.Errorf("the first commit is %+v", c)
			}
		}
		if n != want {
			t.Errorf("store %s has %d commits, want %d", id, n, want)
		}
	}
	if !maps.Equal(s.Metadata, meta) || s.Epoch != 1 || !s.UpdatedAt.IsZero() {
		t.Errorf("it is %+v", s)
	}
	tooMany := map[string]string{"": "x"}
	if _, err := f.Lib.CreateStore(t.Context(), "bad", &memory.StoreOptions{Metadata: tooMany}); !errors.Is(err, memory.ErrBadLimits) {
		t.Errorf("metadata without a key ended with %v, want ErrBadLimits", err)
	}
}
