package session

import (
	"context"
	"fmt"
	"testing"

	"mneme/errkind"
	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/versionlog"
)

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

// TestRepeatedCommit: a commit that is made once more under its key, when the follower has
// long met it, is not awaited again.
func TestRepeatedCommit(t *testing.T) {
	r := newRig(t, nil)
	for range 2 {
		brought := 0
		r.must(r.s.Commit(t.Context(), Proposal{Key: "key", Run: func(ctx context.Context, opts *memory.CommitOptions) (*versionlog.Commit, error) {
			return r.mine.Batch(ctx, []memory.Change{{Action: versionlog.Put, Path: "/f", Content: []byte("mine"), Expect: versionlog.ExpectAny()}}, opts)
		}}, func(c *versionlog.Commit) { brought++; r.brought(c) }))
		if brought != 1 {
			t.Errorf("brought in %d times", brought)
		}
		r.wantAsLog()
		r.wantSettled()
	}
}

// TestMeetAgain: a commit that is under way once more is not met before it is known how that
// ends.
func TestMeetAgain(t *testing.T) {
	r := newRig(t, nil)
	c := &versionlog.Commit{Key: "key", Seq: 1}
	one := r.s.begin(c.Key)
	if met := r.s.Meet(c); !met.Again {
		t.Errorf("%+v", met)
	}
	r.s.end(one, nil, errDown)
	if met := r.s.Meet(c); !met.Named {
		t.Errorf("%+v", met)
	}
}

// TestAwaitOwnEnds: a follower that ends does not wait for a commit under way.
func TestAwaitOwnEnds(t *testing.T) {
	r := newRig(t, nil)
	one := r.s.begin("key")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r.s.AwaitOwn(ctx, "key") {
		t.Error("it is not under way any more")
	}
	r.s.end(one, nil, nil)
	if !r.s.AwaitOwn(ctx, "key") {
		t.Error("it is under way still")
	}
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
		r.s.GiveUp(&st.lost)
		if r.s.IsInDoubt(&st.lost) {
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
	st.saveUnheard("mine")
	r.s.GiveUp(&st.lost)
	r.follow()
	if len(st.drafts) != 1 || r.s.Admit("/f", r.heads["/f"]) != nil {
		t.Error("the session does not know its own commit")
	}
	r.wantSettled()
}

// TestFinal: a commit that ends with a final error, or before the log was asked, is not in the
// log: there is nothing to settle.
func TestFinal(t *testing.T) {
	r := newRig(t, nil)
	st := r.open("/f", false)
	st.write("\xff not text")
	wantErr(t, st.save(), memory.ErrNotText)
	if r.s.IsInDoubt(&st.lost) {
		t.Error("in doubt of what the log was not asked for")
	}
	r.wantSettled()
	r.must(memory.NewLibrary(r.log, nil).ArchiveStore(t.Context(), r.mine.Info().ID, versionlog.Actor{}))
	st.write("text")
	wantErr(t, st.save(), versionlog.ErrArchived)
	if r.s.IsInDoubt(&st.lost) {
		t.Error("in doubt of what the log has refused")
	}
	wantErr(t, r.unlink("/none"), versionlog.ErrConflict)
	r.wantSettled()
}

// TestFinalByKind: of every kind of error it is known whether a commit that ends with it may
// be in the log, be it of a text or of names.
func TestFinalByKind(t *testing.T) {
	for _, kind := range errkind.All() {
		r := newRig(t, nil)
		err := errkind.New(kind, "failed")
		st := r.open("/f", false)
		r.s.end(r.s.beginDraft(st, &Draft{Key: "text"}), nil, fmt.Errorf("commit: %w", err))
		wantErr(t, r.s.Commit(t.Context(), Proposal{Key: "names", Run: func(context.Context, *memory.CommitOptions) (*versionlog.Commit, error) {
			return nil, err
		}}, nil), err)
		want := map[bool]int{true: 0, false: 2}[kind.Final()]
		if got := len(r.s.pending); got != want || r.s.IsInDoubt(&st.lost) == kind.Final() {
			t.Errorf("%v: %d commits may be in the log, want %d", kind, got, want)
		}
	}
}
