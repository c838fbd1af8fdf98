package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/gateway"
	"mneme/gateway/wire"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// hostile returns a client of a server that answers as it likes.
func hostile(t *testing.T, opts *gateway.Options, answer http.HandlerFunc) *gateway.Log {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/"+wire.OpHello) {
			_, _ = fmt.Fprint(w, `{"hello":{"protocol":1,"max_content":1000000}}`)
			return
		}
		answer(w, r)
	}))
	l, err := gateway.Open(t.Context(), s.URL, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Close()
		s.CloseClientConnections()
		s.Close()
	})
	return l
}

// says is a server that answers with JSON.
func says(a *wire.Answer) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		body, _ := json.Marshal(a)
		_, _ = w.Write(body)
	}
}

// streams is a server that answers with items.
func streams(write func(*wire.ItemWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", wire.TypeStream)
		items := wire.NewItemWriter(wire.NewStreamWriter(w, func() error { return nil }))
		write(items)
		_ = items.End(nil)
	}
}

// history is a store with three commits.
func history(t *testing.T) (storeID string, commits []*versionlog.Commit) {
	t.Helper()
	l := memlog.New(nil)
	s := versionlog.Store{ID: versionlog.NewStoreID(), Slug: "notes"}
	if err := l.CreateStore(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		c, err := l.Commit(t.Context(), s.ID, &versionlog.Proposal{Key: fmt.Sprint("k", i), Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}, Changes: []versionlog.Change{
			{Action: versionlog.Put, Path: "/a", Digest: cas.Sum([]byte{byte(i)}), Size: 1, Expect: versionlog.ExpectAny()},
		}})
		if err != nil {
			t.Fatal(err)
		}
		commits = append(commits, c)
	}
	return s.ID, commits
}

// TestHostileStores: what is no description of a store, or that of another one, is not believed.
func TestHostileStores(t *testing.T) {
	id := versionlog.NewStoreID()
	for what, s := range map[string]versionlog.StoreJSON{
		"an id that leads elsewhere": {ID: "../../../../tmp/x", Slug: "notes"},
		"no id":                      {Slug: "notes"},
		"another slug":               {ID: id, Slug: "others"},
		"what the rules do not take": {ID: id, Slug: "notes", MaxMemoryBytes: -1},
	} {
		opts := &gateway.Options{CheckStore: func(s versionlog.Store) error {
			if s.Limits.MaxMemoryBytes < 0 {
				return errors.New("a bad limit")
			}
			return nil
		}}
		if _, err := hostile(t, opts, says(&wire.Answer{Store: &s})).StoreNamed(t.Context(), "notes"); !errors.Is(err, gateway.ErrProtocol) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, stores := range map[string][]versionlog.StoreJSON{
		"one without an id": {{ID: "x", Slug: "z"}},
		"one twice":         {{ID: id, Slug: "b"}, {ID: id, Slug: "b"}},
		"one before":        {{ID: id, Slug: "a"}},
	} {
		l := hostile(t, nil, streams(func(w *wire.ItemWriter) {
			for _, s := range stores {
				text, _ := json.Marshal(s)
				_ = w.Bytes(text)
			}
		}))
		if err := last(l.Stores(t.Context(), "a")); !errors.Is(err, gateway.ErrProtocol) {
			t.Errorf("stores, %s: %v", what, err)
		}
	}
}

// last is the error that ends a walk.
func last[T any](seq iter.Seq2[T, error]) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}

// TestHostileVersions: a version is that which was asked for, in its place, with ids and a path
// that can be.
func TestHostileVersions(t *testing.T) {
	store, commits := history(t)
	v := commits[1].Versions[0]
	of := func(change func(*versionlog.Version)) versionlog.Version {
		bad := v
		change(&bad)
		return bad
	}
	bad := map[string]versionlog.Version{
		"another path":   of(func(v *versionlog.Version) { v.Path = "/b" }),
		"no path":        of(func(v *versionlog.Version) { v.Path = "" }),
		"no id":          of(func(v *versionlog.Version) { v.ID = "x" }),
		"a false number": of(func(v *versionlog.Version) { v.Seq = 7 }),
		"no memory":      of(func(v *versionlog.Version) { v.MemoryID = "../x" }),
		"no parent":      of(func(v *versionlog.Version) { v.Parent = "../x" }),
		"a size below 0": of(func(v *versionlog.Version) { v.Size = -1 }),
		"where from":     of(func(v *versionlog.Version) { v.From = "/b" }),
	}
	for what, one := range bad {
		text, err := versionlog.EncodeVersion(&one)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := hostile(t, nil, says(&wire.Answer{Version: text})).Head(t.Context(), store, "/a"); !errors.Is(err, gateway.ErrProtocol) {
			t.Errorf("a head with %s: %v", what, err)
		}
		l := hostile(t, nil, streams(func(w *wire.ItemWriter) { _ = w.Version(&one) }))
		if err := last(l.Heads(t.Context(), store, "/a", "")); !errors.Is(err, gateway.ErrProtocol) {
			t.Errorf("heads with %s: %v", what, err)
		}
	}
	twice := hostile(t, nil, streams(func(w *wire.ItemWriter) {
		_ = w.Version(&v)
		_ = w.Version(&v)
	}))
	if err := last(twice.Children(t.Context(), store, "/")); !errors.Is(err, gateway.ErrProtocol) {
		t.Errorf("children of which one comes twice: %v", err)
	}
	if err := last(twice.History(t.Context(), store, v.MemoryID, 2)); !errors.Is(err, gateway.ErrProtocol) {
		t.Errorf("a history with what is not below: %v", err)
	}
	renamed := of(func(v *versionlog.Version) { v.Op, v.From = versionlog.OpRenamed, "b" })
	from := hostile(t, nil, streams(func(w *wire.ItemWriter) { _ = w.Version(&renamed) }))
	if err := last(from.PathHistory(t.Context(), store, "/a")); !errors.Is(err, gateway.ErrProtocol) {
		t.Errorf("a rename from what is no path: %v", err)
	}
}

// TestHostileCommits: commits are those of the store, in their order, without a gap.
func TestHostileCommits(t *testing.T) {
	store, commits := history(t)
	other, _ := history(t)
	l := func(places ...int) *gateway.Log {
		return hostile(t, nil, streams(func(w *wire.ItemWriter) {
			for _, i := range places {
				record, _ := wire.EncodeCommit(commits[i])
				_ = w.Bytes(record)
			}
		}))
	}
	ctx := t.Context()
	for what, err := range map[string]error{
		"a gap":               last(l(0, 2).Commits(ctx, store, 0)),
		"one that was there":  last(l(0).Commits(ctx, store, 1)),
		"one of others":       last(l(0).Commits(ctx, other, 0)),
		"the wrong direction": last(l(0, 1).CommitsBefore(ctx, store, 0, versionlog.Filter{})),
		"one above":           last(l(2).CommitsBefore(ctx, store, 2, versionlog.Filter{})),
		"a gap in a feed": func() error {
			_, err := l(2).Capabilities().Next(ctx, store, 0)
			return err
		}(),
		"another proposal's": func() error {
			record, _ := wire.EncodeCommit(commits[0])
			_, err := hostile(t, nil, says(&wire.Answer{Commit: record})).Commit(ctx, store, proposal("/a"))
			return err
		}(),
	} {
		if !errors.Is(err, gateway.ErrProtocol) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func proposal(path string) *versionlog.Proposal {
	return &versionlog.Proposal{Key: "mine", Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}, Changes: []versionlog.Change{
		{Action: versionlog.Put, Path: path, Digest: cas.Sum(nil), Expect: versionlog.ExpectAny()},
	}}
}

// TestHostileSizes: what would take many times its size in memory is not decoded.
func TestHostileSizes(t *testing.T) {
	raw := func(body string) *gateway.Log {
		return hostile(t, nil, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
	}
	many := func(one string, n int) string { return "[" + strings.Repeat(one+",", n) + one + "]" }
	if _, err := raw(`{"tip":{"seq":1},"purged":`+many("{}", 1<<19)+"}").Tip(t.Context(), "x"); !errors.Is(err, gateway.ErrProtocol) {
		t.Errorf("a long answer: %v", err)
	}
	if _, err := raw(`{"tip":{"seq":1},"purged":`+many("{}", 1<<17)+"}").Tip(t.Context(), "x"); !errors.Is(err, gateway.ErrProtocol) {
		t.Errorf("an answer of many objects: %v", err)
	}
	for _, one := range []string{"{}", "null"} {
		l := hostile(t, nil, streams(func(w *wire.ItemWriter) { _ = w.Bytes([]byte(`{"format":2,"versions":` + many(one, 1<<17) + "}")) }))
		if err := last(l.Commits(t.Context(), "x", 0)); !errors.Is(err, gateway.ErrProtocol) || !strings.Contains(err.Error(), "objects") {
			t.Errorf("a record of many times %s: %v", one, err)
		}
	}
}

// TestHostileCaller: what is no id of a key or a session is not believed, and a server that says nothing
// of the credential takes no right away.
func TestHostileCaller(t *testing.T) {
	for caller, isGood := range map[string]bool{
		`null`: true, `{}`: false, `{"key":"k","everywhere":"all"}`: true, `{"key":"k","session":"s\nstate: ok"}`: false,
		`{"key":"k","session":"a b"}`: false, `{"key":"k","session":"\u202ea"}`: false, `{"key":"` + strings.Repeat("k", 129) + `"}`: false,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"hello":{"protocol":1,"caller":%s,"more":1}}`, caller)
		}))
		t.Cleanup(s.Close)
		l, err := gateway.Open(t.Context(), s.URL, nil)
		if isGood != (err == nil) || !isGood && !errors.Is(err, gateway.ErrProtocol) {
			t.Errorf("%s: %v", caller, err)
		}
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = l.Close() })
		if c := l.Credential(); !c.MayWrite("x", "s") {
			t.Errorf("%s: %+v", caller, c)
		}
	}
}
