package forget

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"mneme/cache"
	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/history"
	"mneme/memory"
	"mneme/verify"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// person may erase versions, as a session may not.
var person = &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "alice"}}

// redact erases versions of a store, and nothing on the machine.
func redact(st *memory.Store, reason string, ids ...string) (*Receipt, error) {
	return Redact(context.Background(), nil, st, &Request{Versions: ids, Reason: reason})
}

// wantWhole has a history checked, in which nothing may be wrong.
func wantWhole(t *testing.T, st *memory.Store) {
	t.Helper()
	if _, err := verify.Store(t.Context(), st, nil, func(p verify.Problem) { t.Errorf("%+v", p) }); err != nil {
		t.Error(err)
	}
}

// TestRedact: a content that no version has any longer is deleted, also from the caches of
// followers, and one that another version has stays. A reader of an erased version gets its
// eraser, the time and the reason.
func TestRedact(t *testing.T) {
	ctx := t.Context()
	blobs := memcas.New()
	log := memlog.New(nil)
	library := func() *memory.Library { // each of another process
		c, err := cache.New(blobs, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return memory.NewLibrary(log, func(string) (cas.Store, error) { return c, nil })
	}
	lib := library()
	info, err := lib.CreateStore(ctx, "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	open := func(lib *memory.Library, as *memory.Author) *memory.Store {
		st, err := lib.Open(ctx, info.ID, as)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	st, other := open(lib, person), open(library(), person)
	write := func(path, text string) versionlog.Version {
		v, err := st.Write(ctx, path, []byte(text), versionlog.ExpectAny())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first, second, third := write("/a", "canary"), write("/a", "shared"), write("/a", "clean")
	write("/b", "shared")
	for _, v := range []versionlog.Version{first, second} {
		if _, err := other.Content(ctx, v); err != nil {
			t.Fatal(err)
		}
	}

	found, _, err := Find(ctx, st, Query{Text: "canary"}, nil)
	if err != nil || len(found) != 1 || found[0].ID != first.ID || found[0].Current || found[0].Copies != 0 {
		t.Errorf("found %+v, %v", found, err)
	}
	found, _, err = Find(ctx, st, Query{Text: "shared"}, nil)
	if err != nil || len(found) != 2 || found[0].Current || !found[1].Current || found[0].Copies != 1 {
		t.Errorf("found %+v, %v", found, err)
	}

	if _, err := redact(st, "why", third.ID); !errors.Is(err, versionlog.ErrLiveHead) {
		t.Errorf("of the current version: %v", err)
	}
	if _, err := redact(st, "", first.ID); !errors.Is(err, versionlog.ErrInvalid) {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := redact(open(lib, nil), "why", first.ID); !errors.Is(err, memory.ErrReadOnly) {
		t.Errorf("of one that is open for reading: %v", err)
	}
	if _, err := redact(open(lib, memory.SessionAuthor("sesn_1")), "why", first.ID); !errors.Is(err, memory.ErrSessionRedacts) {
		t.Errorf("by a session: %v", err)
	}
	tip, err := other.Tip(ctx)
	if err != nil {
		t.Fatal(err)
	}
	done, err := redact(st, "ticket 81", first.ID, second.ID)
	if err != nil || len(done.Versions) != 2 || done.Erased != 1 || done.Kept != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if ok, err := blobs.Has(ctx, first.Digest); ok || err != nil {
		t.Errorf("the content is still there: %v", err)
	}
	stop := errors.New("stop")
	if err := other.Follow(ctx, tip, func(*versionlog.Commit) error { return stop }); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	for _, reader := range []*memory.Store{st, other} {
		if data, err := reader.Content(ctx, first); !errors.Is(err, memory.ErrRedacted) { // as it was
			t.Errorf("a cache has %q, %v", data, err)
		}
		if data, err := reader.Content(ctx, second); err != nil || string(data) != "shared" {
			t.Errorf("what another version has is %q, %v", data, err)
		}
		v, err := history.Resolve(ctx, reader, "/a", first.ID)
		if err != nil {
			t.Fatal(err)
		}
		var redacted *memory.RedactedError
		if _, err := reader.Content(ctx, v); !errors.As(err, &redacted) || redacted.Why != "ticket 81" || redacted.Seq != 5 ||
			redacted.By != person.Actor || redacted.At.IsZero() || !strings.Contains(err.Error(), "ticket 81") {
			t.Errorf("reading what was erased: %v", err)
		}
	}
	wantWhole(t, st)
	done, err = redact(st, "again", first.ID)
	if err != nil || len(done.Sequence) != 0 {
		t.Errorf("once more: %+v, %v", done, err)
	}
}

// TestRedactNames: a redaction tells which versions still say the path of an erased one, as that from
// which they renamed it or which they freed, until they are erased, too.
func TestRedactNames(t *testing.T) {
	ctx := t.Context()
	lib := memory.NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return memcas.New(), nil })
	info, err := lib.CreateStore(ctx, "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := lib.Open(ctx, info.ID, person)
	if err != nil {
		t.Fatal(err)
	}
	one := func(v versionlog.Version, err error) versionlog.Version {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	made := one(st.Write(ctx, "/secret", []byte("1"), versionlog.ExpectAny()))
	changed := one(st.Write(ctx, "/secret", []byte("2"), versionlog.ExpectAny()))
	move := func(from, to string) versionlog.Version {
		t.Helper()
		c, err := st.Rename(ctx, from, to, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Versions[0]
	}
	renamed, again := move("/secret", "/b"), move("/b", "/c")
	gone := one(st.Remove(ctx, "/c", versionlog.ExpectAny()))
	for _, step := range []struct {
		erase, want []string
	}{
		{[]string{made.ID}, nil}, // the next one has the path itself
		{[]string{changed.ID}, []string{renamed.ID}},
		{[]string{made.ID, changed.ID}, []string{renamed.ID}}, // once more
		{[]string{renamed.ID, again.ID}, []string{gone.ID}},
		{[]string{made.ID, changed.ID, renamed.ID, again.ID, gone.ID}, nil},
	} {
		done, err := redact(st, "why", step.erase...)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(done.PathsIn, step.want) {
			t.Errorf("of %v the paths are left in %v, want %v", step.erase, done.PathsIn, step.want)
		}
		wantWhole(t, st)
	}
}

// TestRedactDamaged: what can be read is erased, and a content goes only if no version may have it
// whose record cannot be read.
func TestRedactDamaged(t *testing.T) {
	ctx := t.Context()
	d, blobs := &unreadable{Log: memlog.New(nil)}, memcas.New()
	lib := memory.NewLibrary(d, func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(ctx, "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := lib.Open(ctx, info.ID, person)
	if err != nil {
		t.Fatal(err)
	}
	var written []versionlog.Version
	for _, text := range []string{"canary", "2", "3"} {
		v, err := st.Write(ctx, "/a", []byte(text), versionlog.ExpectAny())
		if err != nil {
			t.Fatal(err)
		}
		written = append(written, v)
	}
	d.from, d.to = 2, 3
	found, unseen, err := Find(ctx, st, Query{Path: "/a"}, nil)
	if err != nil || len(found) != 1 || found[0].Current || len(unseen) != 1 || unseen[0].What != "commits 2 to 3" {
		t.Fatalf("found %+v, unseen %+v, %v", found, unseen, err)
	}
	done, err := redact(st, "why", written[0].ID)
	if err != nil || len(done.Places) == 0 || !strings.Contains(done.Places[0].Left, "commit 3 cannot be read") {
		t.Errorf("%+v, %v", done, err)
	}
	if there, err := blobs.Has(ctx, written[0].Digest); err != nil || !there {
		t.Errorf("the content is gone: %v", err)
	}
	if erased, err := st.RedactedVersions(ctx); err != nil || !erased[written[0].ID] {
		t.Errorf("%v, %v", erased, err)
	}
}

// unreadable is a log of which the records of some commits cannot be read.
type unreadable struct {
	versionlog.Log
	from, to uint64
}

func (l *unreadable) Commits(ctx context.Context, id string, after uint64) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		for c, err := range l.Log.Commits(ctx, id, after) {
			if err == nil && c.Seq >= l.from && c.Seq <= l.to {
				c, err = nil, versionlog.ErrCorrupt
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// withoutPurge is a log that takes no redactions.
type withoutPurge struct{ versionlog.Log }

func (withoutPurge) Capabilities() versionlog.Capabilities { return versionlog.Capabilities{} }

// TestRedactUnsupported: a log that cannot says so before anything is done.
func TestRedactUnsupported(t *testing.T) {
	lib := memory.NewLibrary(withoutPurge{memlog.New(nil)}, func(string) (cas.Store, error) { return memcas.New(), nil })
	info, err := lib.CreateStore(context.Background(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := lib.Open(t.Context(), info.ID, person)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := redact(st, "why", "memver_x"); !errors.Is(err, versionlog.ErrNoRedaction) {
		t.Error(err)
	}
}
