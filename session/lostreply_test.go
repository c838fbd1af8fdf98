package session

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/versionlog"
)

var errDown = logfault.ErrDown

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
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
			if !r.s.IsInDoubt(st) {
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
	st.write("x\n")
	r.log.SetFates(logfault.Unheard)
	wantErr(t, st.save(), errDown)
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
		st.write("one")
		r.log.SetFates(logfault.Unheard)
		wantErr(t, st.save(), errDown)
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

// TestSettle: names change only when it is known what became of the commits of what they
// name, under the path that these were for.
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
	st.write("mine")
	r.log.SetFates(logfault.Unheard)
	wantErr(t, st.save(), errDown)
	for _, c := range []Claim{{Path: "/d"}, {Path: "/e", Below: true}, {Path: "/d/f2"}, {Path: "/d/f", Below: true}} {
		release, err := r.s.Settle(t.Context(), func() []Claim { return []Claim{c} })
		r.must(err)
		release()
		if known := !r.s.IsInDoubt(st); known != (c.Path == "/d/f") {
			t.Errorf("after %v it is known: %v", c, known)
		}
	}
	r.wantAsLog()
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
	st.write("one\n")
	r.log.SetFates(logfault.Unheard)
	wantErr(t, st.save(), errDown)
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
	st.write("one\n")
	r.log.SetFates(logfault.Unheard)
	wantErr(t, st.save(), errDown)
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
		st.write(one)
		r.log.SetFates(logfault.Unheard)
		wantErr(t, st.save(), errDown)
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

// TestFollowerAwaitsItsMaker: a follower that comes upon a commit before its maker has the
// reply leaves it to that.
func TestFollowerAwaitsItsMaker(t *testing.T) {
	for _, fate := range []logfault.Fate{logfault.Made, logfault.Unheard} {
		r := newRig(t, nil)
		st := r.open("/f", false)
		st.write("mine")
		r.log.SetFates(fate)
		hold := r.log.Hold(logfault.AfterCommit)
		saved, met := make(chan error), make(chan struct{})
		go func() { saved <- st.save() }()
		<-hold.Reached()
		go func() {
			defer close(met)
			r.follow()
		}()
		select {
		case <-met:
			t.Error("the follower has met a commit whose maker does not know of it")
		default:
		}
		hold.Release()
		if err := <-saved; (err == nil) != (fate == logfault.Made) {
			t.Error(err)
		}
		<-met
		r.must(st.save())
		r.wantAsLog()
		r.wantSettled()
	}
}

// TestAwaitOwnEnds: a follower that ends does not wait for a commit under way.
func TestAwaitOwnEnds(t *testing.T) {
	r := newRig(t, nil)
	one := r.s.begin("key")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.s.AwaitOwn(ctx, "key")
	r.s.end(one, nil, nil)
	r.s.AwaitOwn(t.Context(), "key")
}

// TestLostReplyOfNames: a commit of names whose reply was lost is the session's own when it
// is met, which knows what came of it.
func TestLostReplyOfNames(t *testing.T) {
	for name, free := range map[string]func(*rig) error{
		"rename": func(r *rig) error { return r.rename("/f", "/g") },
		"unlink": func(r *rig) error { return r.unlink("/f") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, "/f")
			r.read("/f")
			r.log.SetFates(logfault.Unheard)
			wantErr(t, free(r), errDown)
			r.follow()
			if k := r.s.Known().Of("/f"); !k.IsKnown() || k.Head() != nil {
				t.Error("the session does not know that nothing is left behind")
			}
			r.theirs("/f", "theirs")
			r.follow()
			if r.s.Admit("/f", r.heads["/f"]) == nil {
				t.Error("the session may overwrite what was made where it has left nothing")
			}
			r.wantSettled()
		})
	}
}

// TestAdoptedContent: what a commit of names has written, whose reply was lost, the session
// knows when it is met, unless it was merged.
func TestAdoptedContent(t *testing.T) {
	for _, message := range []string{"", "merge"} {
		r := newRig(t, nil, "/f")
		r.read("/f")
		r.log.SetFates(logfault.Unheard)
		err := r.s.Commit(t.Context(), Proposal{Run: func(ctx context.Context, opts *memory.CommitOptions) (*versionlog.Commit, error) {
			opts.Message = message
			return r.mine.Batch(ctx, []memory.Change{{Action: versionlog.Put, Path: "/f", Content: []byte("mine"), Expect: versionlog.ExpectAny()}}, opts)
		}}, r.brought)
		wantErr(t, err, errDown)
		r.follow()
		if known := r.s.Admit("/f", r.heads["/f"]) == nil; known != (message == "") {
			t.Errorf("with message %q the session knows it: %v", message, known)
		}
	}
}

// TestLostRepliesAreBounded loses more replies, of texts that are given up and of names,
// than the session remembers.
func TestLostRepliesAreBounded(t *testing.T) {
	r := newRig(t, nil, "/f")
	r.log.SetFate(func() logfault.Fate { return logfault.Unmade })
	for i := range 3 * maxLost {
		st := r.open(fmt.Sprint("/n", i), false)
		st.write("text")
		wantErr(t, st.save(), errDown)
		r.s.GiveUp(st)
		if r.s.IsInDoubt(st) {
			t.Fatal("in doubt of what was given up")
		}
	}
	for range 3 * maxLost {
		wantErr(t, r.rename("/f", "/g"), errDown)
	}
	if n := len(r.s.pending); n > 2*maxLost {
		t.Errorf("%d commits are remembered", n)
	}
}

// TestGivenUpIsMet: a text that was given up is told all the same that it is in the log.
func TestGivenUpIsMet(t *testing.T) {
	r := newRig(t, nil)
	st := r.open("/f", false)
	st.write("mine")
	r.log.SetFates(logfault.Unheard)
	wantErr(t, st.save(), errDown)
	r.s.GiveUp(st)
	r.follow()
	if len(st.drafts) != 1 || r.s.Admit("/f", r.heads["/f"]) != nil {
		t.Error("the session does not know its own commit")
	}
	r.wantSettled()
}

// TestFinal: a commit that ends with a final error, or before the log was asked, is not in
// the log: nothing is to be settled.
func TestFinal(t *testing.T) {
	r := newRig(t, nil)
	st := r.open("/f", false)
	st.write("\xff not text")
	wantErr(t, st.save(), memory.ErrNotText)
	if r.s.IsInDoubt(st) {
		t.Error("in doubt of what the log was not asked for")
	}
	r.wantSettled()
	r.must(memory.NewLibrary(r.log, nil).ArchiveStore(t.Context(), r.mine.Info().ID, versionlog.Actor{}))
	st.write("text")
	wantErr(t, st.save(), versionlog.ErrArchived)
	if r.s.IsInDoubt(st) {
		t.Error("in doubt of what the log has refused")
	}
	wantErr(t, r.unlink("/none"), versionlog.ErrConflict)
	r.wantSettled()
}
