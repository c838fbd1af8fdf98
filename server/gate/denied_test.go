package gate

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"mneme/cas"
	"mneme/errkind"
	"mneme/gateway"
	"mneme/memory"
	"mneme/plugin"
	"mneme/server/access"
	"mneme/session"
	"mneme/tools"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// readers serves a rig's store to a credential that may only read it.
func readers(t *testing.T, r *rig) *server {
	reader := &access.Caller{Library: r.lib, Actor: r.caller.Actor, Grants: map[string]access.Right{r.store.ID: access.Read}}
	return newServer(t, viewOf(func(*http.Request) (*access.Caller, error) { return reader, nil }))
}

// TestCredentialThatReads: what a credential has no right to change was certainly not changed,
// and is read-only to it.
func TestCredentialThatReads(t *testing.T) {
	r := newRig(t, nil)
	s := readers(t, r)
	l := s.dial(t, nil)
	other := r.store
	other.ID, other.Slug = versionlog.NewStoreID(), "other"
	large := put("/large", strings.Repeat("x", 2<<20)) // which is put before
	for what, do := range map[string]func(context.Context) error{
		"a commit":            func(ctx context.Context) error { _, err := l.Commit(ctx, r.store.ID, put("/a", "1")); return err },
		"a commit of a blob":  func(ctx context.Context) error { _, err := l.Commit(ctx, r.store.ID, large); return err },
		"a blob":              func(ctx context.Context) error { _, err := l.Blobs(r.store.ID).Put(ctx, []byte("x")); return err },
		"a store that is new": func(ctx context.Context) error { return l.CreateStore(ctx, other) },
		"a deletion":          func(ctx context.Context) error { return l.DeleteStore(ctx, r.store.ID) },
	} {
		err := do(t.Context())
		if !errors.Is(err, versionlog.ErrReadOnly) || !errkind.Of(err).Final() || err != nil && !strings.Contains(err.Error(), "it takes the right") {
			t.Errorf("%s: %v (%v)", what, err, errkind.Of(err))
		}
	}
	network := &once{Transport: &http.Transport{}}
	l = s.dial(t, &gateway.Options{Transport: network})
	network.lose()
	if _, err := l.Commit(t.Context(), r.store.ID, put("/a", "1")); errkind.Of(err) != errkind.Denied {
		t.Errorf("a commit that may have been made before: %v (%v)", err, errkind.Of(err))
	}
}

// forbidden is a log whose disk forbids it to commit.
type forbidden struct{ versionlog.Log }

func (forbidden) Commit(context.Context, string, *versionlog.Proposal) (*versionlog.Commit, error) {
	return nil, syscall.EACCES
}

// TestDiskThatForbids: what the system denies to the server may have been done.
func TestDiskThatForbids(t *testing.T) {
	l := newServer(t, rawView(forbidden{memlog.New(nil)}, newBlobs())).dial(t, nil)
	if _, err := l.Commit(t.Context(), addStore(t, l, "notes"), put("/a", "1")); errkind.Of(err) != errkind.Denied {
		t.Errorf("%v (%v)", err, errkind.Of(err))
	}
}

// TestAgentWhoseCredentialReads: an agent is told that the store is read-only, not that it did not
// answer.
func TestAgentWhoseCredentialReads(t *testing.T) {
	r := newRig(t, nil)
	l := readers(t, r).dial(t, nil)
	lib := memory.NewLibrary(l, func(id string) (cas.Store, error) { return l.Blobs(id), nil })
	st, err := lib.Open(t.Context(), r.store.ID, memory.SessionAuthor("s1"))
	if err != nil {
		t.Fatal(err)
	}
	own := session.New(st, &session.Options{ID: "s1", Name: tools.PathName("notes", false)})
	t.Cleanup(own.Close)
	m := tools.New([]tools.Place{{Store: st, Session: own}}, nil)
	got := m.Call(t.Context(), []byte(`{"command": "create", "path": "/memories/a.md", "file_text": "x"}`))
	if got.Error == nil || got.Error.Unsure || !strings.Contains(got.Text, "is read-only here; nothing was changed") {
		t.Errorf("a tool: %q, %+v", got.Text, got.Error)
	}
	p := plugin.New(m, &plugin.Options{Deadline: time.Minute})
	t.Cleanup(p.Close)
	turn := plugin.Batch{Request: plugin.Request{ThreadID: "t", TurnID: "1"}, Entries: []plugin.Entry{{ID: "e", Role: "user", Text: "x"}}}
	if d := p.Remember(t.Context(), turn).Diagnostics; d.Retry != plugin.Never || d.Receipt.Entries[0].Status != plugin.Refused {
		t.Errorf("a plugin: %+v, %+v", d, d.Receipt)
	}
}
