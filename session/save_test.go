package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mneme/internal/testing/logfault"
	"mneme/versionlog"
)

// wantLost wants a save to have lost for a reason.
func wantLost(t *testing.T, err error, want Reason) *LostError {
	t.Helper()
	var lost *LostError
	if !errors.As(err, &lost) || lost.Reason != want || !errors.Is(err, versionlog.ErrConflict) {
		t.Fatalf("error %v, want a loss for reason %d", err, want)
	}
	return lost
}

// TestSaveLoses: what another session has changed is not overwritten, and the bytes are on
// disk before the caller hears of it. The same write, repeated, fails again, and is one
// conflict.
func TestSaveLoses(t *testing.T) {
	for name, theirs := range map[string]func(*rig){
		"changed": func(r *rig) { r.theirs("/f", "theirs") },
		"removed": func(r *rig) { r.theyRemove("/f") },
	} {
		for _, followed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, followed), func(t *testing.T) {
				r := newRig(t, keeping(t), "/f")
				r.read("/f")
				st := r.open("/f", false)
				st.write("mine")
				theirs(r)
				if followed {
					r.follow()
				}
				want := Changed
				if name == "removed" {
					want = Gone
				}
				lost := wantLost(t, st.save(), want)
				r.wantKept("mine")
				text := fmt.Sprintf("your text is kept in conflict %d", lost.Conflict)
				if !strings.Contains(lost.Error(), text) || !strings.Contains(string(r.s.Journal().Lines()), text) {
					t.Errorf("the error does not say where the text is: %v", lost)
				}
				if again := wantLost(t, st.save(), want); again.Conflict != lost.Conflict {
					t.Errorf("the same text is conflict %d, and %d", lost.Conflict, again.Conflict)
				}
				st.write("mine, and more")
				wantLost(t, st.save(), want)
				r.wantKept("mine, and more")
				if !r.s.Known().Of("/f").WasRefused() {
					t.Error("nothing says that the path is to be read first")
				}
				r.wantAsLog()
			})
		}
	}
}

// TestSaveNew: two sessions that make one path do not overwrite each other.
func TestSaveNew(t *testing.T) {
	r := newRig(t, keeping(t))
	st := r.open("/f", false)
	st.write("mine")
	r.log.Next(logfault.BeforeCommit, func() { r.theirs("/f", "theirs") })
	lost := wantLost(t, st.save(), Changed)
	if !strings.Contains(lost.Error(), "while you made it") {
		t.Error(lost)
	}
	r.wantText("/f", "theirs")
	r.wantKept("mine")
}

// TestSaveSameBytes: it is no conflict that another session wrote the very same bytes, whether
// the face has heard of it or not, except for bytes that it has written since.
func TestSaveSameBytes(t *testing.T) {
	for _, followed := range []bool{false, true} {
		r := newRig(t, nil, "/f")
		r.read("/f")
		st := r.open("/f", false)
		st.write("same")
		r.theirs("/f", "same")
		if followed {
			r.follow()
		}
		r.must(st.save())
		st.write("mine")
		r.must(st.save())
		r.wantText("/f", "mine")
		r.wantAsLog()
	}
	r := newRig(t, keeping(t), "/f")
	st := r.open("/f", false)
	st.write("same")
	r.log.Next(logfault.BeforeCommit, func() { r.theirs("/f", "same") })
	r.log.Next(logfault.AfterCommit, func() { r.theirs("/f", "other") }) // before the reply
	wantLost(t, st.save(), Changed)
	r.wantKept("same")
}

// TestSaveUnchanged: bytes that are what they replace make no version, and are made sure of.
func TestSaveUnchanged(t *testing.T) {
	r := newRig(t, nil, "/f")
	st := r.open("/f", false)
	st.write("/f")
	r.must(st.save())
	if n := r.inHistory("/f"); n != 1 {
		t.Errorf("%d versions", n)
	}
	r.wantSettled()
}

// TestLossIsKnown: a session that has lost what it wrote over something that it had never
// read is refused when it does the same again.
func TestLossIsKnown(t *testing.T) {
	r := newRig(t, keeping(t), "/f")
	st := r.open("/f", false)
	st.write("mine")
	r.theirs("/f", "theirs")
	r.follow()
	if r.s.Admit("/f", r.heads["/f"]) != nil {
		t.Fatal("the session knows something of it")
	}
	wantLost(t, st.save(), Changed)
	if err := r.s.Admit("/f", r.heads["/f"]); reasonOf(err) != Changed {
		t.Errorf("the same again: %v", err)
	}
}

// TestHoldsWhatWasReadSince: what a session reads between its commit and the reply stays
// known.
func TestHoldsWhatWasReadSince(t *testing.T) {
	r := newRig(t, nil, "/f")
	r.read("/f")
	st := r.open("/f", false)
	st.write("mine")
	r.log.Next(logfault.AfterCommit, func() {
		newer := r.theirs("/f", "theirs")
		r.mu.Lock()
		r.bringLocked(newer) // as a head that loads
		r.mu.Unlock()
		r.read("/f")
	})
	r.must(st.save())
	if k := r.s.Known().Of("/f"); k.Stale(r.heads["/f"]) {
		t.Error("the session has forgotten what it has read")
	}
}

// TestSaveClaimsAnew: a text that another session moves while its save waits for the claim is
// saved at the place where it is then.
func TestSaveClaimsAnew(t *testing.T) {
	r := newRig(t, nil, "/f")
	st := r.open("/f", false)
	st.write("mine")
	release, err := r.s.claims.Take(t.Context(), func() []Claim { return []Claim{{Path: "/f"}} })
	r.must(err)
	saved := make(chan error)
	go func() { saved <- st.save() }()
	r.theyRename("/f", "/g")
	r.follow()
	release()
	r.must(<-saved)
	r.wantText("/g", "mine")
	r.wantText("/f", "")
	r.wantAsLog()
	r.wantSettled()
}

// TestSaveClaimsWhatIsInDoubt: while a save waits for its turn, another one of the same text,
// for another path, loses its reply. That path is claimed, too, before the draft is tried
// again.
func TestSaveClaimsWhatIsInDoubt(t *testing.T) {
	r := newRig(t, nil)
	st := r.open("/g", false)
	st.write("mine")
	end, err := st.turn.Take(t.Context())
	r.must(err)
	r.log.SetFates(logfault.Unmade)
	_, err = r.s.saveClaimed(t.Context(), st, &saving{SaveOptions: SaveOptions{Claimed: true}})
	wantErr(t, err, errDown)
	r.mu.Lock()
	st.path = "/f"
	r.mu.Unlock()
	lost := st.lost
	st.lost = LostReply{} // as before that save
	saved := make(chan error)
	go func() { saved <- st.save() }()
	for r.s.claims.Idle() {
		time.Sleep(time.Millisecond)
	}
	r.s.mu.Lock()
	st.lost = lost
	r.s.mu.Unlock()
	var claimed bool
	r.log.Next(logfault.BeforeCommit, func() {
		r.s.claims.mu.Lock()
		defer r.s.claims.mu.Unlock()
		claimed = r.s.claims.held.overlaps([]Claim{{Path: "/g"}})
	})
	end()
	r.must(<-saved)
	if !claimed {
		t.Error("the path of the draft is not claimed")
	}
}

// TestAppendFollowsAMove: an append to a file that another session moves between its draft
// and its commit goes where the file is.
func TestAppendFollowsAMove(t *testing.T) {
	r := newRig(t, nil, "/f")
	st := r.open("/f", true)
	st.write("mine")
	r.log.Next(logfault.BeforeCommit, func() {
		r.theyRename("/f", "/g")
		r.follow()
		r.log.Next(logfault.BeforeCommit, func() { r.wantClaimed("/g") })
	})
	r.must(st.save())
	r.wantText("/g", "/fmine")
	r.wantText("/f", "")
	r.wantAsLog()
	r.wantSettled()
}

// wantClaimed wants a path to be claimed.
func (r *rig) wantClaimed(path string) {
	r.Helper()
	if w := r.s.claims.ask([]Claim{{Path: path}}); w == nil {
		r.Errorf("%s is not claimed", path)
		r.s.claims.release([]Claim{{Path: path}})
	} else {
		r.s.claims.withdraw(w)
	}
}

// deaf is a text whose face does not take in what it is told.
type deaf struct{ *staged }

func (st *deaf) Met(*Draft, *versionlog.Version) {}

// TestSaveDecides: what the log has just said is there counts, whatever the face shows.
func TestSaveDecides(t *testing.T) {
	r := newRig(t, &Options{Merge: true})
	r.theirs("/f", "a\nb\nc\n")
	r.follow()
	r.read("/f")
	st := &deaf{r.open("/f", false)}
	st.write("a\nb\nmine\n")
	r.theirs("/f", "theirs\nb\nc\n")
	r.must(r.s.Save(t.Context(), st, nil))
	r.wantText("/f", "theirs\nb\nmine\n")
}

// TestLostAndSettled: a text that is kept, and whose conflict was settled since, is not kept
// again unless more is written to it.
func TestLostAndSettled(t *testing.T) {
	r := newRig(t, keeping(t), "/f")
	r.read("/f")
	st := r.open("/f", false)
	st.write("mine")
	r.theirs("/f", "theirs")
	lost := wantLost(t, st.save(), Changed)
	r.must(r.s.Conflicts().Dismiss(lost.Conflict, ByDismissing))
	wantLost(t, st.save(), Changed)
	r.wantKept()
	st.write("more")
	wantLost(t, st.save(), Changed)
	r.wantKept("more")
}

// TestSaveUnasked: a text for which no caller has asked stays as it is when it cannot be
// committed, and is saved later.
func TestSaveUnasked(t *testing.T) {
	r := newRig(t, keeping(t), "/f")
	st := r.open("/f", false)
	st.write("mine")
	theirs := r.theirs("/f", "theirs")
	wantErr(t, r.s.Save(t.Context(), st, &SaveOptions{Unasked: true}), ErrUncommitted)
	r.wantKept()
	if len(st.losses) > 0 || r.s.Journal().Len() > 0 {
		t.Error("the loss was told")
	}
	lost := wantLost(t, st.save(), Changed)
	if !lost.Theirs.Is(&theirs) {
		t.Errorf("lost to %v", lost.Theirs.Version())
	}
	r.wantKept("mine")
}

// TestSaveOverlap: bytes for a path that another session has made a directory are kept.
func TestSaveOverlap(t *testing.T) {
	r := newRig(t, keeping(t))
	st := r.open("/d", false)
	st.write("mine")
	r.theirs("/d/x", "theirs")
	wantErr(t, st.save(), versionlog.ErrOverlap)
	r.wantKept("mine")
	r.wantSettled()
}

// TestSaveAside: what is not for the history is not committed.
func TestSaveAside(t *testing.T) {
	r := newRig(t, nil)
	st := &asideText{staged: r.open("/f", false)}
	st.write("mine")
	wantErr(t, r.s.Save(t.Context(), st, nil), errAside)
	r.wantText("/f", "")
	r.wantSettled()
}

type asideText struct{ *staged }

var errAside = errors.New("aside")

func (st *asideText) Draft(decided string) (*Draft, error) {
	d, err := st.staged.Draft(decided)
	d.Aside = func(context.Context) error { return errAside }
	return d, err
}

// TestSaveEndsWithItsContext: a save whose caller gives up while it waits has done nothing.
func TestSaveEndsWithItsContext(t *testing.T) {
	r := newRig(t, nil)
	st := r.open("/f", false)
	st.write("mine")
	release, err := r.s.claims.Take(t.Context(), func() []Claim { return []Claim{{Path: "/f"}} })
	r.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	saved := make(chan error)
	go func() { saved <- r.s.Save(ctx, st, nil) }()
	cancel()
	wantErr(t, <-saved, context.Canceled)
	release()
	r.wantText("/f", "")
	r.must(st.save())
	r.wantAsLog()
	r.wantSettled()
}
