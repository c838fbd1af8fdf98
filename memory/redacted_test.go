package memory_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/forget"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestErasedIsFound: a process that begins to use a store finds earlier redactions, also in
// a store of the past, and distinguishes them from versions that the rule let go of.
func TestErasedIsFound(t *testing.T) {
	ctx, blobs := t.Context(), memcas.New()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	log := memlog.New(&memlog.Options{Now: func() time.Time { return now }})
	lib := memory.NewLibrary(log, func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(ctx, "notes", &memory.StoreOptions{Policy: versionlog.Policy{Retention: versionlog.Retention{KeepVersions: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	st, err := lib.Open(ctx, info.ID, person)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, text := range []string{"of the rule", "canary", "before", "now"} {
		v, err := st.Write(ctx, "/a", []byte(text), versionlog.ExpectAny())
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, v.ID)
	}
	past, err := lib.OpenAt(ctx, info.ID, 3)
	if err != nil {
		t.Fatal(err)
	}
	wants := func(when string, at time.Time, since bool, redacted ...string) {
		t.Helper()
		for _, s := range []*memory.Store{st, past} {
			if erased, err := s.ErasedSince(ctx, at); err != nil || erased != since {
				t.Errorf("%s: erased since %v: %v, %v", when, at, erased, err)
			}
			found, err := s.Redacted(ctx, append(ids, "memver_none"))
			if got := slices.Sorted(maps.Keys(found)); err != nil || !slices.Equal(got, redacted) {
				t.Errorf("%s: redacted is %q, %v, want %q", when, got, err, redacted)
			}
		}
	}
	wants("at first", now, false)
	now = now.Add(time.Hour)
	expired, err := forget.FindExpired(ctx, st, now, 0, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := forget.LetGo(ctx, st, expired, func(int, int) {}); err != nil || !slices.Equal(done.Versions, ids[:1]) {
		t.Fatalf("the rule lets go of %+v, %v", done, err)
	}
	wants("after the rule", now, true)
	wants("later", now.Add(time.Hour), false)
	now = now.Add(time.Hour)
	if _, err := forget.Redact(ctx, nil, st, &forget.Request{Versions: ids[1:2], Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	wants("after the redaction", now, true, ids[1])
	hurt, err := memory.NewLibrary(hurtLog{log, ids[2]}, func(string) (cas.Store, error) { return blobs, nil }).Open(ctx, info.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	found, err := hurt.Redacted(ctx, []string{ids[2], ids[0], ids[1]})
	if got := slices.Collect(maps.Keys(found)); !errors.Is(err, context.DeadlineExceeded) || !slices.Equal(got, ids[1:2]) {
		t.Errorf("in a log that cannot tell of a version, nor of the rule: redacted is %q, %v", got, err)
	}
	far, err := memory.NewLibrary(farLog{log}, func(string) (cas.Store, error) { return blobs, nil }).Open(ctx, info.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]bool{5 * time.Minute: true, 15 * time.Minute: false} {
		if erased, err := far.ErasedSince(ctx, now.Add(after)); err != nil || erased != want {
			t.Errorf("by clocks of elsewhere, %v after the redaction: %v, %v", after, erased, err)
		}
	}
	now = now.Add(time.Hour)
	if _, err := st.Write(ctx, "/b", []byte("more"), versionlog.ExpectAny()); err != nil {
		t.Fatal(err)
	}
	wants("after more", now.Add(-time.Hour), true, ids[1])
	wants("after more, later", now, false, ids[1])
}

// hurtLog is a log that cannot tell of a version, and has lost what the rule of the store has done.
type hurtLog struct {
	versionlog.Log
	version string
}

func (l hurtLog) Version(ctx context.Context, storeID, id string) (versionlog.Version, error) {
	if id == l.version {
		return versionlog.Version{}, context.DeadlineExceeded
	}
	return l.Log.Version(ctx, storeID, id)
}

func (l hurtLog) Commits(ctx context.Context, storeID string, after uint64) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		for c, err := range l.Log.Commits(ctx, storeID, after) {
			if err == nil && c.IsEvent(versionlog.EventRetention) {
				yield(nil, versionlog.ErrCorrupt)
				return
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// farLog is a log that others commit to by clocks of their own.
type farLog struct{ versionlog.Log }

func (l farLog) Capabilities() versionlog.Capabilities {
	can := l.Log.Capabilities()
	can.Near = false
	return can
}
