package session

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"mneme/internal/testing/logfault"
)

var errDown = logfault.ErrDown

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// saveUnheard writes a text and saves it: the commit is made, and its reply is lost.
func (st *staged) saveUnheard(text string) {
	st.r.Helper()
	st.write(text)
	st.r.log.SetFates(logfault.Unheard)
	wantErr(st.r.T, st.save(), errDown)
}

// lost are the ways in which a commit can end with an error that is not final, met by the
// follower or not.
func lost(t *testing.T, test func(t *testing.T, fate logfault.Fate, followed bool)) {
	for _, fate := range []logfault.Fate{logfault.Unheard, logfault.Unmade} {
		for _, followed := range []bool{false, true} {
			t.Run(fmt.Sprint(fate, " followed ", followed), func(t *testing.T) { test(t, fate, followed) })
		}
	}
}

// TestLostReply: a text whose reply was lost is there once when it is saved again, and it
// is no conflict, whatever was written to it meanwhile.
func TestLostReply(t *testing.T) {
	for _, appends := range []bool{false, true} {
		lost(t, func(t *testing.T, fate logfault.Fate, followed bool) {
			r := newRig(t, keeping(t))
			st := r.open("/f", appends)
			st.write("one\n")
			r.log.SetFates(fate)
			wantErr(t, st.save(), errDown)
			if !r.s.IsInDoubt(&st.lost) {
				t.Error("what became of the commit is known")
			}
			more := "one\ntwo\n"
			if st.appends {
				more = "two\n"
			}
			st.write(more)
			if followed {
				r.follow()
			}
			r.must(st.save())
			r.must(st.save())
			r.wantText("/f", "one\ntwo\n")
			r.wantAsLog()
			r.wantSettled()
			r.wantKept()
			if n := r.inHistory("one\n"); n != 2 {
				t.Errorf("%d versions, want 2", n)
			}
			for key, n := range st.drafts {
				if n != 1 {
					t.Errorf("%s was told to be committed %d times", key, n)
				}
			}
		})
	}
}

// TestLostReplyTwice loses the reply of the second try, too.
func TestLostReplyTwice(t *testing.T) {
	for _, followed := range []bool{false, true} {
		r := newRig(t, nil)
		st := r.open("/f", true)
		st.write("one\n")
		r.log.SetFates(logfault.Unheard, logfault.Unheard)
		wantErr(t, st.save(), errDown)
		st.write("two\n")
		if followed {
			r.follow()
		}
		wantErr(t, st.save(), errDown)
		r.must(st.save())
		r.wantText("/f", "one\ntwo\n")
		r.wantAsLog()
		r.wantSettled()
	}
}

// TestLostReplyOfAppendThatLost appends, loses a reply, and another session appends the
// very same before it is tried again.
func TestLostReplyOfAppendThatLost(t *testing.T) {
	r := newRig(t, nil)
	st := r.open("/f", true)
	st.saveUnheard("x\n")
	r.theirs("/f", "x\nx\n")
	r.must(st.save())
	r.wantText("/f", "x\nx\n")
	st.write("x\n")
	r.must(st.save())
	r.wantText("/f", "x\nx\nx\n")
	r.wantAsLog()
	r.wantSettled()
}

// TestLostReplyOverwritten: when another session has written on top of a commit whose reply
// was lost, what was written after it loses to that, and not to the session itself.
func TestLostReplyOverwritten(t *testing.T) {
	for _, followed := range []bool{false, true} {
		r := newRig(t, keeping(t), "/f")
		st := r.open("/f", false)
		st.saveUnheard("one")
		theirs := r.theirs("/f", "theirs")
		if followed {
			r.follow()
		}
		st.write("two")
		err := st.save()
		var e *LostError
		if !errors.As(err, &e) || e.Theirs == nil || !e.Theirs.Is(&theirs) {
			t.Fatalf("%v, want a loss to %s", err, theirs.ID)
		}
		r.wantKept("two")
		if n := r.inHistory("one"); n != 1 {
			t.Errorf("the first text is in %d versions", n)
		}
		r.wantAsLog()
		r.wantSettled()
	}
}

// TestSettle: names change only when the outcome of the commits of the memories at these names is
// known, under the path that these commits were for.
func TestSettle(t *testing.T) {
	for _, of := range []string{"/d/f", "/d/n"} { // there, and new
		lost(t, func(t *testing.T, fate logfault.Fate, followed bool) {
			r := newRig(t, nil, "/d/f")
			st := r.open(of, false)
			st.write("mine")
			r.log.SetFates(fate)
			wantErr(t, st.save(), errDown)
			if followed {
				r.follow()
			}
			r.must(r.rename(of, "/g"))
			r.must(st.save())
			r.wantText("/g", "mine")
			r.wantText(of, "")
			r.wantAsLog()
			r.wantSettled()
		})
	}
}

// TestSettleBelow: a claim of a directory settles what is below it, and no other claim
// does.
func TestSettleBelow(t *testing.T) {
	r := newRig(t, nil)
	st := r.open("/d/f", false)
	st.saveUnheard("mine")
	for _, c := range []Claim{{Path: "/d"}, {Path: "/e", Below: true}, {Path: "/d/f2"}, {Path: "/d/f", Below: true}} {
		release, err := r.s.Settle(t.Context(), func() []Claim { return []Claim{c} }, nil)
		r.must(err)
		release()
		if known := !r.s.IsInDoubt(&st.lost); known != (c.Path == "/d/f") {
			t.Errorf("after %v it is known: %v", c, known)
		}
	}
	r.wantAsLog()
}

// TestSettleMoved: a text that another session has moved since is settled by a claim of where
// it was, and of where it is; both are claimed meanwhile.
func TestSettleMoved(t *testing.T) {
	for _, path := range []string{"/f", "/g"} {
		r := newRig(t, nil, "/f")
		st := r.open("/f", true)
		st.write("mine")
		r.log.SetFates(logfault.Unmade)
		wantErr(t, st.save(), errDown)
		r.theyRename("/f", "/g")
		r.follow()
		r.log.Next(logfault.BeforeCommit, func() { r.wantClaimed("/f"); r.wantClaimed("/g") })
		release, err := r.s.Settle(t.Context(), func() []Claim { return []Claim{{Path: path}} }, nil)
		r.must(err)
		release()
		if r.s.IsInDoubt(&st.lost) {
			t.Errorf("after a claim of %s it is not known what became of the text", path)
		}
		r.wantAsLog()
		r.wantSettled()
	}
}

// TestSettleFails: while it cannot be known what became of a text, its name does not
// change; the text is saved later.
func TestSettleFails(t *testing.T) {
	lost(t, func(t *testing.T, fate logfault.Fate, followed bool) {
		r := newRig(t, nil)
		st := r.open("/n", false)
		st.write("mine")
		r.log.SetFates(fate, logfault.Unmade)
		wantErr(t, st.save(), errDown)
		if fate == logfault.Unheard && followed {
			return // then it is known
		}
		wantErr(t, r.rename("/n", "/g"), errDown)
		r.must(st.save())
		r.wantText("/n", "mine")
		r.wantText("/g", "")
		r.wantAsLog()
		r.wantSettled()
	})
}

// TestSettleAwaits: a change of names waits for a commit under way, and settles it when
// that ends with an error.
func TestSettleAwaits(t *testing.T) {
	for _, fate := range []logfault.Fate{logfault.Unheard, logfault.Unmade} {
		r := newRig(t, nil, "/f")
		st := r.open("/f", false)
		st.write("mine")
		point := logfault.AfterCommit
		if fate == logfault.Unmade {
			point = logfault.BeforeCommit
		}
		hold := r.log.Hold(point)
		r.log.SetFates(fate)
		saved := make(chan error)
		go func() { saved <- st.save() }()
		<-hold.Reached()
		renamed := make(chan error)
		go func() { renamed <- r.rename("/f", "/g") }()
		hold.Release()
		wantErr(t, <-saved, errDown)
		r.must(<-renamed)
		r.must(st.save())
		r.wantText("/g", "mine")
		r.wantAsLog()
		r.wantSettled()
	}
}

// TestMovedInDoubt has another session rename a file whose commit's reply was lost.
func TestMovedInDoubt(t *testing.T) {
	for _, appends := range []bool{false, true} {
		lost(t, func(t *testing.T, fate logfault.Fate, followed bool) {
			r := newRig(t, nil, "/f")
			st := r.open("/f", appends)
			st.write("mine")
			r.log.SetFates(fate)
			wantErr(t, st.save(), errDown)
			if followed {
				r.follow()
			}
			r.theyRename("/f", "/g")
			r.follow()
			r.must(st.save())
			want := "mine"
			if appends {
				want = "/fmine"
			}
			r.wantText("/g", want)
			r.wantText("/f", "")
			r.wantAsLog()
			r.wantSettled()
		})
	}
}

// TestRemovedInDoubt removes a new file whose commit's reply was lost: it does not come
// back.
func TestRemovedInDoubt(t *testing.T) {
	lost(t, func(t *testing.T, fate logfault.Fate, followed bool) {
		r := newRig(t, nil)
		st := r.open("/n", false)
		st.write("mine")
		r.log.SetFates(fate)
		wantErr(t, st.save(), errDown)
		if followed {
			r.follow()
		}
		r.must(r.unlink("/n"))
		r.must(st.save())
		r.wantText("/n", "")
		r.wantAsLog()
		r.wantSettled()
	})
}

// TestDraftDoesNotComeBack: another session removes a file whose commit's reply was lost,
// while that is tried again.
func TestDraftDoesNotComeBack(t *testing.T) {
	r := newRig(t, nil)
	st := r.open("/f", true)
	st.saveUnheard("one\n")
	r.s.appended = appendedOn{path: "/f", at: r.s.now(), took: 1}
	r.s.sleep = func(context.Context, time.Duration) { // the retry waits its turn
		r.theyRemove("/f")
		r.follow()
	}
	r.must(st.save())
	r.wantText("/f", "")
	r.wantAsLog()
	r.wantSettled()
}

// TestDraftIsSettledOnce: the follower meets a commit whose reply was lost while that is
// about to be tried again, and another session appends.
func TestDraftIsSettledOnce(t *testing.T) {
	r := newRig(t, nil)
	st := r.open("/f", true)
	st.saveUnheard("one\n")
	st.write("two\n")
	r.s.appended = appendedOn{path: "/f", at: r.s.now(), took: 1}
	r.s.sleep = func(context.Context, time.Duration) {
		r.s.sleep = func(context.Context, time.Duration) {}
		r.follow()
		r.theyAppend("/f", "theirs\n")
	}
	r.must(st.save())
	r.wantText("/f", "one\ntheirs\ntwo\n")
	r.wantAsLog()
	r.wantSettled()
}

// TestDraftIsSettledOnceByTwo lets the follower and the retry race, again and again.
func TestDraftIsSettledOnceByTwo(t *testing.T) {
	r := newRig(t, nil)
	st := r.open("/f", true)
	want := ""
	for i := range 300 {
		one, two := fmt.Sprintln("one", i), fmt.Sprintln("two", i)
		want += one + two
		st.saveUnheard(one)
		st.write(two)
		met := make(chan struct{})
		go func() {
			defer close(met)
			r.follow()
		}()
		r.must(st.save())
		<-met
	}
	r.wantText("/f", want)
	r.wantAsLog()
	r.wantSettled()
	for key, n := range st.drafts {
		if n != 1 {
			t.Errorf("%s was told to be committed %d times", key, n)
		}
	}
}

// TestOwnCommitsAwaitFollower: however far the follower is behind, a commit of the session is
// its own, and no text is held until then.
func TestOwnCommitsAwaitFollower(t *testing.T) {
	r := newRig(t, nil)
	st := r.open("/f", false)
	for i := range 2 * maxLost {
		st.write(fmt.Sprint(i))
		r.must(st.save())
	}
	for _, one := range r.s.pending {
		if one.text != nil || one.draft != nil {
			t.Fatal("what is committed is held until the follower has met it")
		}
	}
	for c, err := range r.other.Commits(t.Context(), 0) {
		r.must(err)
		if !r.s.Meet(c).Own {
			t.Errorf("commit %d is not the session's own", c.Seq)
		}
	}
	r.wantSettled()
}
