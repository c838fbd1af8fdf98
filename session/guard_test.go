package session

import (
	"errors"
	"strings"
	"testing"

	"mneme/errkind"
	"mneme/versionlog"
)

// TestGuardKeepsBytes saves a text that the store's guard holds back: its bytes are kept
// once, however often that is tried, and resolving the conflict confirms them.
func TestGuardKeepsBytes(t *testing.T) {
	r := newRig(t, keeping(t))
	r.theirs("/f", strings.Repeat("x", 1100))
	r.follow()
	half := int64(50)
	_, err := r.lib.UpdateStore(t.Context(), r.mine.Info().ID, versionlog.StoreUpdate{GuardShrinkPercent: &half}, versionlog.Actor{Kind: versionlog.ActorUser, ID: "me"})
	r.must(err)
	st := r.open("/f", false)
	st.write("short")
	for range 2 {
		err := st.save()
		if wantErr(t, err, versionlog.ErrGuarded); errkind.Of(err) != errkind.Policy {
			t.Errorf("it is of kind %v", errkind.Of(err))
		}
	}
	r.wantText("/f", strings.Repeat("x", 1100))
	r.wantKept("short")
	if _, err := r.s.Write(t.Context(), "/f", []byte("direct"), nil); err == nil {
		t.Error("a direct write passes")
	}
	_, err = r.s.Conflicts().Resolve(t.Context(), 1, Resolution{Take: Yours})
	if held, ok := errors.AsType[*HeldError](err); !ok || held.Conflict != 1 {
		t.Errorf("resolving it unconfirmed fails with %+v", err)
	}
	r.wantKept("short", "direct")
	_, err = r.s.Conflicts().Resolve(t.Context(), 1, Resolution{Take: Yours, Confirmed: true})
	r.must(err)
	r.wantText("/f", "short")
}

// TestGuardCountsDeletions deletes one memory after another until the store's guard holds it
// back, in one session and not in the other.
func TestGuardCountsDeletions(t *testing.T) {
	r := newRig(t, nil, "/a", "/b", "/c", "/d/e", "/d/f")
	two := int64(2)
	_, err := r.lib.UpdateStore(t.Context(), r.mine.Info().ID, versionlog.StoreUpdate{GuardDeletesPerMinute: &two}, versionlog.Actor{Kind: versionlog.ActorUser, ID: "me"})
	r.must(err)
	r.theyRemove("/a")
	for _, path := range []string{"/b", "/c"} {
		_, err := r.s.Remove(t.Context(), path, nil)
		r.must(err)
	}
	_, err = r.s.Remove(t.Context(), "/d/e", nil)
	wantErr(t, err, versionlog.ErrGuarded)
	_, err = r.s.RemoveTree(t.Context(), "/d", nil)
	wantErr(t, err, versionlog.ErrGuarded)
	_, err = r.s.RemoveTree(t.Context(), "/d", &WriteOptions{Confirmed: true})
	r.must(err)
}

// TestGuardKeepsEdit edits a memory in a way that the store's guard holds back: what the edit
// made is kept, the error says in which conflict, and resolving that confirms it.
func TestGuardKeepsEdit(t *testing.T) {
	r := newRig(t, keeping(t))
	r.theirs("/f", strings.Repeat("x", 1100))
	half := int64(50)
	_, err := r.lib.UpdateStore(t.Context(), r.mine.Info().ID, versionlog.StoreUpdate{GuardShrinkPercent: &half}, versionlog.Actor{Kind: versionlog.ActorUser, ID: "me"})
	r.must(err)
	for range 2 {
		_, err := r.s.Edit(t.Context(), "/f", func(Seen) ([]byte, error) { return []byte("edited"), nil }, nil)
		wantErr(t, err, versionlog.ErrGuarded)
		if held, ok := errors.AsType[*HeldError](err); !ok || held.Conflict != 1 {
			t.Errorf("it fails with %+v", err)
		}
	}
	r.wantKept("edited")
	_, err = r.s.Conflicts().Resolve(t.Context(), 1, Resolution{Take: Yours, Confirmed: true})
	r.must(err)
	r.wantText("/f", "edited")
}
