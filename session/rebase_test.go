package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/session/conflict"
)

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

// TestAppendIsNotKnown: a session that appends to a version which it has not read does not know
// the result; one that does know the version knows the result.
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

// TestSaveGivesUp: an append ends, with its bytes kept, when others are faster again and
// again.
func TestSaveGivesUp(t *testing.T) {
	r := newRig(t, keeping(t), "/f")
	st := r.open("/f", true)
	st.write("mine\n")
	tries := 0
	r.log.Each(logfault.BeforeCommit, func() {
		tries++
		r.theirs("/f", fmt.Sprint(tries))
	})
	wantLost(t, st.save(), Changed)
	if tries != maxRebases+1 {
		t.Errorf("%d tries", tries)
	}
	r.wantKept(fmt.Sprint(maxRebases, "mine\n"))
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

// TestJudgedOnce: a merged text is not judged again, or a save might never end.
func TestJudgedOnce(t *testing.T) {
	r := newRig(t, &Options{Merge: true})
	r.theirs("/f", "a\nb\nc\n")
	r.follow()
	r.read("/f")
	r.theirs("/f", "theirs\nb\nc\n")
	r.follow()
	r.read("/f")
	st := &stubborn{staged: r.open("/f", false)}
	st.write("a\nb\nmine\n")
	r.must(r.s.Save(t.Context(), st, nil))
	if st.tries != 2 {
		t.Errorf("%d drafts", st.tries)
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
