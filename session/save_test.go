package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/session/conflict"
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

// TestSaveSameBytes: that another session wrote the very same bytes is no conflict, whether
// the face has heard of it or not, but for what it has written since.
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

// TestAppends: appends never conflict. Two that add the same line make two, and what
// another session has made of the file meanwhile does not matter.
func TestAppends(t *testing.T) {
	for name, test := range map[string]struct {
		theirs func(*rig)
		want   string
	}{
		"appended":   {func(r *rig) { r.theyAppend("/f", "line\n") }, "/fline\nline\n"},
		"replaced":   {func(r *rig) { r.theirs("/f", "new\n") }, "new\nline\n"},
		"removed":    {func(r *rig) { r.theyRemove("/f") }, "line\n"},
		"same bytes": {func(r *rig) { r.theirs("/f", "/fline\n") }, "/fline\nline\n"},
	} {
		for _, point := range []logfault.Point{logfault.BeforeCommit, -1} {
			t.Run(fmt.Sprint(name, point), func(t *testing.T) {
				r := newRig(t, nil, "/f")
				st := r.open("/f", true)
				st.write("line\n")
				if point < 0 {
					test.theirs(r)
				} else {
					r.log.Next(point, func() { test.theirs(r) })
				}
				r.must(st.save())
				r.wantText("/f", test.want)
				r.wantAsLog()
				r.wantSettled()
			})
		}
	}
}

// TestAppendIsNotKnown: who appends to what it has not read does not know it then; who does
// know it knows what it has made.
func TestAppendIsNotKnown(t *testing.T) {
	for _, read := range []bool{false, true} {
		r := newRig(t, nil, "/f")
		r.read("/f")
		r.theirs("/f", "theirs\n")
		r.follow()
		if read {
			r.read("/f")
		}
		st := r.open("/f", true)
		st.write("mine\n")
		r.must(st.save())
		if known := r.s.Admit("/f", r.heads["/f"]) == nil; known != read {
			t.Errorf("read %v, known %v", read, known)
		}
	}
}

// TestAppendsBackOff: a save that starts over waits, longer each time; it ends when the
// face and the log do not agree on what is there.
func TestAppendsBackOff(t *testing.T) {
	r := newRig(t, keeping(t), "/f")
	var waits []time.Duration
	r.s.rand = func(most time.Duration) time.Duration { return most - 1 }
	r.s.sleep = func(_ context.Context, d time.Duration) { waits = append(waits, d.Round(time.Millisecond)) }
	st := r.open("/f", true)
	st.write("mine\n")
	left := 25
	r.log.Each(logfault.BeforeCommit, func() {
		if left--; left > 0 {
			r.theyAppend("/f", "theirs\n")
		}
	})
	r.must(st.save())
	if len(waits) != 23 || waits[0] != time.Millisecond || !slices.IsSorted(waits) || waits[22] != 20*time.Millisecond {
		t.Errorf("waited %v", waits)
	}
	r.wantAsLog()
}

// stubborn is a text that does not take in what it is told.
type stubborn struct {
	*staged
	tries int
}

func (st *stubborn) Rebase(*Draft, *memory.Head, []byte) bool { return true }

func (st *stubborn) Draft(decided string) (*Draft, error) {
	st.tries++
	return st.staged.Draft(decided)
}

// TestSaveWithoutProgress: a save that is refused again and again for one version ends.
func TestSaveWithoutProgress(t *testing.T) {
	r := newRig(t, keeping(t), "/f")
	st := &stubborn{staged: r.open("/f", true)}
	st.write("mine\n")
	r.theirs("/f", "theirs\n")
	wantLost(t, r.s.Save(t.Context(), st, nil), Changed)
	if st.tries != maxAlike+1 {
		t.Errorf("%d tries", st.tries)
	}
	r.wantKept("/fmine\n")
}

// TestTurns: a session that appends lets others go first when it has just appended on top
// of another session's version, and only then.
func TestTurns(t *testing.T) {
	r := newRig(t, nil, "/f", "/g")
	save := func(path, text string, appends bool) {
		st := r.open(path, appends)
		st.write(text)
		r.must(st.save())
	}
	save("/f", "mine", false)
	if r.s.appended.path != "" || r.slept > 0 {
		t.Errorf("who does not append has appended on %v", r.s.appended)
	}
	save("/g", "mine", true)
	had := r.s.appended
	if had.path != "/g" || had.took <= 0 {
		t.Errorf("who appended to another session's new version has appended on %v", had)
	}
	save("/f", "mine", true)
	if r.slept > 0 {
		t.Error("waited before an append to another file")
	}
	save("/g", "mine", true)
	if r.s.appended != had || r.slept != 1 {
		t.Errorf("who appended to its own version has appended on %v, and waited %d times", r.s.appended, r.slept)
	}
	r.s.now = func() time.Time { return had.at.Add(contention) }
	if save("/g", "mine", true); r.slept != 1 {
		t.Error("waited though the other session has stopped long ago")
	}
}

// TestMerges: a session that merges brings changes to other lines together. It does not
// know what came of it.
func TestMerges(t *testing.T) {
	for _, followed := range []bool{false, true} {
		r := newRig(t, &Options{Merge: true, Conflicts: conflict.New(t.TempDir())})
		r.theirs("/f", "a\nb\nc\n")
		r.follow()
		r.read("/f")
		st := r.open("/f", false)
		st.write("a\nb\nmine\n")
		r.theirs("/f", "theirs\nb\nc\n")
		if followed {
			r.follow()
		}
		r.must(st.save())
		r.wantText("/f", "theirs\nb\nmine\n")
		if r.s.Admit("/f", r.heads["/f"]) == nil {
			t.Error("the session knows what it has never seen")
		}
		v, err := r.other.Head(t.Context(), "/f")
		r.must(err)
		if !strings.HasPrefix(v.Message, "merge of memver_") {
			t.Errorf("message %q", v.Message)
		}
		st = r.open("/f", false)
		r.read("/f")
		st.write("theirs\nb\nmine 2\n")
		r.theirs("/f", "theirs\nb\ntheirs 2\n")
		wantLost(t, st.save(), Changed)
		r.wantKept("theirs\nb\nmine 2\n")
	}
}

// TestTakesBack: a text that takes back what the session has only read is refused once, as
// if it were based on the version before; once that has been read, it is meant. A text that
// keeps the other's lines passes.
func TestTakesBack(t *testing.T) {
	r := newRig(t, keeping(t))
	r.theirs("/f", "one\n")
	r.follow()
	r.read("/f")
	r.theirs("/f", "one\ntwo\n")
	r.follow()
	r.read("/f")
	st := r.open("/f", false)
	st.write("ONE\n")
	lost := wantLost(t, st.save(), TakesBack)
	if lost.Base.Seq() != 1 || lost.Theirs.Seq() != 2 || !strings.Contains(lost.Error(), "do the same again if that is meant") {
		t.Errorf("%+v: %v", lost, lost)
	}
	r.wantKept("ONE\n")
	st = r.open("/f", false)
	st.write("one\ntwo\nthree\n")
	r.must(st.save())
	st.write("ONE\n")
	wantLost(t, st.save(), TakesBack)
	r.read("/f")
	st = r.open("/f", false)
	st.write("ONE\n")
	r.must(st.save())
	r.wantText("/f", "ONE\n")
	st = r.open("/f", false)
	st.fresh = true // what it writes it has read itself
	st.write("one\n")
	r.must(st.save())
}

// TestTakesBackMerged: a session that merges brings such a text together with the change.
func TestTakesBackMerged(t *testing.T) {
	r := newRig(t, &Options{Merge: true})
	r.theirs("/f", "a\nb\nc\n")
	r.follow()
	r.read("/f")
	r.theirs("/f", "theirs\nb\nc\n")
	r.follow()
	r.read("/f")
	st := r.open("/f", false)
	st.write("a\nb\nmine\n")
	r.must(st.save())
	r.wantText("/f", "theirs\nb\nmine\n")
	if !r.s.Known().Of("/f").WasRefused() {
		t.Error("the next write is not judged by whether that was read")
	}
}

// TestDamagedIsNotJudged: what cannot be read is not judged by.
func TestDamagedIsNotJudged(t *testing.T) {
	r := newRig(t, keeping(t))
	one, two := r.theirs("/f", "one\n"), r.theirs("/f", "one\ntwo\n")
	one.Digest[0]++
	d := &Draft{Data: []byte("ONE\n"), Base: memory.NewHead(&two), Judge: []Change{{From: memory.NewHead(&one), Known: true, To: memory.NewHead(&two)}}}
	if change := r.s.takenBack(t.Context(), d); change != nil {
		t.Errorf("judged by %+v", change)
	}
}

// TestSaveClaimsAnew: a text that another session moves while its save waits for the claim
// is saved where it is by then.
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

// TestAppendFollowsAMove: an append to a file that another session moves between its draft
// and its commit goes where the file is.
func TestAppendFollowsAMove(t *testing.T) {
	r := newRig(t, nil, "/f")
	st := r.open("/f", true)
	st.write("mine")
	r.log.Next(logfault.BeforeCommit, func() { r.theyRename("/f", "/g"); r.follow() })
	r.must(st.save())
	r.wantText("/g", "/fmine")
	r.wantText("/f", "")
	r.wantAsLog()
	r.wantSettled()
}

// TestSaveUnasked: what nobody has asked for stays as it is when it cannot be committed,
// and is saved later.
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
