package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// TestMessages: the texts for agents.
func TestMessages(t *testing.T) {
	at := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	made := func(seq uint64, session string) *memory.Head {
		v := versionAt(seq, "/f", "text")
		v.Time, v.Actor, v.Session = at, versionlog.Actor{Kind: versionlog.ActorUser, ID: "ann"}, session
		return memory.NewHead(&v)
	}
	mine, theirs, anns := made(1, "mine"), made(2, "other\u202e"), made(3, "")
	taken, cut := &Change{From: mine, Known: true, To: theirs}, &Change{To: theirs, Cut: 4}
	r := newRig(t, &Options{Face: "mount"})
	r.s.now = func() time.Time { return at.Add(3 * time.Second) }
	for _, test := range []struct {
		err   *LostError
		shown string
		want  string
	}{
		{&LostError{Reason: Changed, Base: mine, Theirs: theirs}, "",
			`notes:/f changed since you read it (version 2 by session "other\u202e", 3s ago); read it again and redo your edit`},
		{&LostError{Reason: Changed, Theirs: anns}, "",
			`notes:/f changed while you made it (version 3 by "user:ann", 3s ago); read it again and redo your edit`},
		{&LostError{Reason: Changed, Base: mine, Theirs: theirs}, "/f~",
			`notes:/f changed since you read it (version 2 by session "other\u202e", 3s ago); this mount has it as "/f~": read that, or rename it back, and redo your edit`},
		{&LostError{Reason: NeverRead, Theirs: anns}, "",
			`notes:/f was never read in this session, and this mount is strict (version 3 by "user:ann", 3s ago); read it and write again`},
		{&LostError{Reason: TakesBack, Theirs: theirs, Change: taken}, "",
			`notes:/f was not removed: that would take back what version 2 changed (by session "other\u202e", 3s ago); read it again, and do the same again if that is meant`},
		{&LostError{Reason: MovedUnread, Theirs: theirs, At: "/g"}, "/g~",
			`notes:/f was not saved: what was there was moved to "/g~" by this session, which has not read what another one had changed in it (now version 2 by session "other\u202e", 3s ago); read "/g~" and redo your edit`},
	} {
		test.err.Store, test.err.Path = "notes", "/f"
		if r.s.Report(test.err, test.shown); escaped(test.err.Error()) != escaped(test.want) {
			t.Errorf("told\n%s, want\n%s", test.err, test.want)
		}
	}
	for _, test := range []struct {
		loss Loss
		want string
	}{
		{Loss{Base: mine}, `notes:/f was removed or renamed since you read it; read it again and redo your edit`},
		{Loss{}, `notes:/f was removed or renamed while you made it; read it again and redo your edit`},
		{Loss{Base: mine, Theirs: theirs, Change: taken}, `notes:/f was not saved: that would take back what version 2 changed (by session "other\u202e", 3s ago); read it again, and do the same again if that is meant`},
		{Loss{Base: mine, Theirs: theirs, Change: cut}, `notes:/f was not saved: that would drop the end of version 2 (by session "other\u202e", 3s ago); read it again, and do the same again if that is meant`},
		{Loss{Why: "it is a directory"}, `notes:/f was not saved: it is a directory; read it again and redo your edit`},
		{Loss{Why: "it is a directory", Noted: true}, `notes:/f was not saved: it is a directory; a line before says what to do`},
	} {
		test.loss.Path = "/f"
		if id, text := r.s.keep(t.Context(), &test.loss); escaped(text) != escaped(test.want) || id != NotKept {
			t.Errorf("told (conflict %d)\n%s, want\n%s", id, text, test.want)
		}
	}
}

// escaped is a text with its escapes as a person would write them.
func escaped(text string) string { return strings.ReplaceAll(text, "\u202e", `\u202e`) }

// TestOfAnother: what this session has renamed, or saved on top of another session's change, is
// told as that session's.
func TestOfAnother(t *testing.T) {
	r := newRig(t, keeping(t), "/f")
	r.read("/f")
	base := r.heads["/f"]
	r.theirs("/f", "theirs")
	r.follow()
	r.must(r.rename("/f", "/g"))
	lost := r.s.lostError(t.Context(), &Loss{Path: "/g", Base: base, Theirs: r.heads["/g"], Yours: []byte("mine")})
	if want := `version 2 by session "other"`; !strings.Contains(lost.Error(), want) {
		t.Errorf("%v, want %s", lost, want)
	}
	v, err := r.mine.Write(t.Context(), "/g", []byte("mine, on top"), versionlog.ExpectAny())
	r.must(err)
	lost = r.s.lostError(t.Context(), &Loss{Path: "/g", Base: base, Theirs: memory.NewHead(&v), Yours: []byte("stale")})
	if want := `version 2 by session "other"`; !strings.Contains(lost.Error(), want) {
		t.Errorf("after a save of this session: %v, want %s", lost, want)
	}
}

// TestKeepAfterSettling: what a text loses after its conflict was settled is another
// conflict, whether the disk has heard of the first one's end or not.
func TestKeepAfterSettling(t *testing.T) {
	r := newRig(t, keeping(t))
	first := r.s.Keep(t.Context(), Loss{Path: "/a", Yours: []byte("one")})
	if same := r.s.Keep(t.Context(), Loss{Path: "/a", Yours: []byte("one more"), Conflict: first}); same != first {
		t.Fatalf("what a text went on to lose is conflict %d, want %d", same, first)
	}
	r.s.Wrote("/a")
	next := r.s.Keep(t.Context(), Loss{Path: "/a", Yours: []byte("one more, and more"), Conflict: first})
	r.s.Close()
	open, err := r.s.opts.Conflicts.IDs()
	r.must(err)
	if next == first || !slices.Equal(open, []int{next}) || len(r.s.Conflicts().Own()) != 1 || !r.s.Conflicts().IsOwn(next) {
		t.Errorf("conflict %d was settled, then %d was kept; open are %v", first, next, open)
	}
	for id, want := range map[int]string{first: "one more", next: "one more, and more"} {
		if yours, err := r.s.opts.Conflicts.Read(id, conflict.YoursFile); err != nil || string(yours) != want {
			t.Errorf("conflict %d holds %q, %v, want %q", id, yours, err, want)
		}
	}
}

// TestLose: what is written to a text that has lost is kept as it comes, as one conflict,
// also when another session moves the file.
func TestLose(t *testing.T) {
	r := newRig(t, keeping(t), "/f")
	r.read("/f")
	st := r.open("/f", false)
	r.theirs("/f", "theirs")
	r.follow()
	id := 0
	for _, text := range []string{"mine", "mine and more"} {
		st.write(text)
		lost := wantLost(t, r.s.Lose(t.Context(), st), Changed)
		if r.wantKept(text); id != 0 && lost.Conflict != id {
			t.Errorf("conflicts %d and %d", id, lost.Conflict)
		}
		if id = lost.Conflict; text == "mine" {
			r.theyRename("/f", "/g")
			r.follow()
		}
	}
	wantLost(t, st.save(), Changed)
	r.wantKept("mine and more")
}

// TestKeepOnce: a request that is repeated loses the same text once.
func TestKeepOnce(t *testing.T) {
	r := newRig(t, keeping(t))
	loss := Loss{Path: "/a", Yours: []byte("one"), Once: true}
	first := r.s.Keep(t.Context(), loss)
	if again := r.s.Keep(t.Context(), loss); again != first {
		t.Errorf("the same loss is conflict %d, and %d", first, again)
	}
	loss.Yours = []byte("two")
	r.s.Keep(t.Context(), loss)
	r.wantKept("one", "two")
}

// TestKeepOnceMore: a request that loses a text which an earlier one has lost keeps it again
// where that was settled, or could not be kept.
func TestKeepOnceMore(t *testing.T) {
	r := newRig(t, keeping(t), "/a")
	loss := Loss{Path: "/a", Yours: []byte("one"), Once: true}
	r.must(r.s.Conflicts().Dismiss(r.s.Keep(t.Context(), loss), ByDismissing))
	if id := r.s.Keep(t.Context(), loss); id != 2 || !strings.Contains(string(r.s.Journal().Lines()), "conflict 2") {
		t.Errorf("what was settled is conflict %d; the journal says %s", id, r.s.Journal().Lines())
	}
	full := r.s.opts.Conflicts
	r.s.opts.Conflicts = conflict.New("/dev/null")
	loss.Yours = []byte("two")
	if id := r.s.Keep(t.Context(), loss); id != NotKept {
		t.Fatalf("it was kept as %d", id)
	}
	r.s.opts.Conflicts = full
	if id := r.s.Keep(t.Context(), loss); id != 3 {
		t.Errorf("what could not be kept is conflict %d by now", id)
	}
	r.s.Close()
}

// TestKeepRefused: a rename that is refused before it begins, and is repeated, is kept once. Its
// subject is named as the face shows it.
func TestKeepRefused(t *testing.T) {
	r := newRig(t, keeping(t), "/f")
	r.read("/f")
	r.theirs("/f", "theirs")
	r.follow()
	r.must(r.rename("/f", "/g"))
	for range 2 {
		err := r.s.AdmitNew("/f", func(path string) *memory.Head { return r.heads[path] })
		r.s.Report(err, "/g~")
		r.s.KeepRefused(t.Context(), err, "/g~", []byte("mine"))
		if err.Conflict != 1 || !strings.Contains(err.Error(), "moved to \"/g~\"") {
			t.Errorf("conflict %d: %v", err.Conflict, err)
		}
	}
	r.wantKept("mine")
}

// TestReportOfWhatIsShown: what was never read is in the journal under the name that the face
// shows.
func TestReportOfWhatIsShown(t *testing.T) {
	r := newRig(t, &Options{Strict: true}, "/f")
	r.s.Report(r.s.Admit("/f", r.heads["/f"]), "/f~")
	if lines := string(r.s.Journal().Lines()); !strings.Contains(lines, `"notes:/f~" was never read`) {
		t.Errorf("the journal says %s", lines)
	}
}

// TestKeepMakesRoom: when a session keeps more than it may, its oldest conflict goes, and the
// journal says so; where the store is full, that the text is not kept.
func TestKeepMakesRoom(t *testing.T) {
	r := newRig(t, keeping(t), "/a")
	v := versionAt(1, "/a", "")
	v.Size = conflict.MaxBytesOfSession
	large, kept := memory.NewHead(&v), r.s.opts.Conflicts
	first := r.s.Keep(t.Context(), Loss{Path: "/a", Theirs: large, Yours: []byte("first")})
	second := r.s.Keep(t.Context(), Loss{Path: "/a", Theirs: large, Yours: []byte("second")})
	r.wantKept("second")
	if text := string(r.s.Journal().Lines()); !strings.Contains(text, fmt.Sprintf("conflict %d of \"notes:/a\"", first)) || !strings.Contains(text, "to make room") {
		t.Errorf("errors do not say what was removed:\n%s", text)
	}
	r.must(kept.Remove(second))
	for i := range conflict.MaxBytesOfStore / conflict.MaxBytesOfSession {
		_, err := kept.Keep(conflict.About{Session: fmt.Sprint(i), Theirs: conflict.SideOf(&v)}, conflict.Texts{})
		r.must(err)
	}
	if id := r.s.Keep(t.Context(), Loss{Path: "/b", Theirs: large, Yours: []byte("third")}); id != NotKept {
		t.Errorf("conflict %d is kept in a store that is full", id)
	}
	if text := string(r.s.Journal().Lines()); !strings.Contains(text, conflict.ErrFull.Error()) {
		t.Errorf("errors do not say why the text is not kept:\n%s", text)
	}
}

// TestWroteSettles: a write that succeeds settles what its session has lost at the path,
// also what an earlier process of it has left, and takes the error away; others it does not.
func TestWroteSettles(t *testing.T) {
	r := newRig(t, keeping(t), "/f")
	before, err := r.s.opts.Conflicts.Keep(conflict.About{Path: "/f", Session: "mine", Time: time.Now().Add(-time.Hour)}, conflict.Texts{Yours: []byte("before")})
	r.must(err)
	_, err = r.s.opts.Conflicts.Keep(conflict.About{Path: "/f", Session: "other", Time: time.Now().Add(-time.Hour)}, conflict.Texts{Yours: []byte("other's")})
	r.must(err)
	r.must(r.s.Conflicts().Adopt(time.Now()))
	r.s.Keep(t.Context(), Loss{Path: "/f", Yours: []byte("lost")})
	r.s.Keep(t.Context(), Loss{Path: "/g", Yours: []byte("elsewhere")})
	st := r.open("/f", false)
	st.write("mine")
	r.must(st.save())
	r.s.Close()
	r.wantKept("other's", "elsewhere")
	if text := string(r.s.Journal().Lines()); strings.Contains(text, "/f") || !strings.Contains(text, "/g") {
		t.Errorf("errors say:\n%s", text)
	}
	about, err := r.s.opts.Conflicts.About(before)
	if err != nil || about.How != byWriting {
		t.Errorf("conflict %d was settled as %q, %v", before, about.How, err)
	}
}

// TestAdmit: what may be replaced and removed.
func TestAdmit(t *testing.T) {
	for _, strict := range []bool{false, true} {
		r := newRig(t, &Options{Strict: strict}, "/never", "/read", "/changed", "/seen")
		for _, path := range []string{"/read", "/changed", "/seen"} {
			r.read(path)
		}
		r.theirs("/changed", "theirs")
		r.theirs("/seen", "theirs")
		r.follow()
		r.read("/seen")
		for path, want := range map[string][2]Reason{"/none": {-1, -1}, "/never": {-1, -1}, "/read": {-1, -1}, "/changed": {Changed, Changed}, "/seen": {-1, TakesBack}} {
			if strict && path == "/never" {
				want[0] = NeverRead
			}
			for i, err := range []*LostError{r.s.Admit(path, r.heads[path]), r.s.AdmitRemoval(path, r.heads[path])} {
				if got := reasonOf(err); got != want[i] {
					t.Errorf("strict %v: %s: reason %d (%d), want %d", strict, path, got, i, want[i])
				}
			}
		}
		if got, want := r.s.Blind(), map[bool]int{false: 1, true: 0}[strict]; got != want {
			t.Errorf("strict %v: let replace %d that were never read, want %d", strict, got, want)
		}
	}
}

func reasonOf(err *LostError) Reason {
	if err == nil {
		return -1
	}
	return err.Reason
}

// TestAdmitNew: where a session has moved away what it has not read, it makes nothing until
// it has read that where it is.
func TestAdmitNew(t *testing.T) {
	r := newRig(t, nil, "/f")
	r.read("/f")
	r.theirs("/f", "theirs")
	r.follow()
	r.must(r.rename("/f", "/g"))
	head := func(path string) *memory.Head { return r.heads[path] }
	err := r.s.AdmitNew("/f", head)
	if reasonOf(err) != MovedUnread || err.At != "/g" {
		t.Fatalf("%+v", err)
	}
	r.theyRename("/g", "/h")
	r.follow()
	if err := r.s.AdmitNew("/f", head); err == nil || err.At != "/h" {
		t.Errorf("%+v", err)
	}
	r.read("/h")
	if err := r.s.AdmitNew("/f", head); err != nil {
		t.Errorf("it was read: %v", err)
	}
}

// TestRemovalAfterRefusal: what a session was not let write it does not remove either, until it has
// read it.
func TestRemovalAfterRefusal(t *testing.T) {
	r := newRig(t, &Options{Strict: true}, "/never", "/changed")
	r.read("/changed")
	for path, want := range map[string]Reason{"/never": NeverRead, "/changed": Changed} {
		if want == Changed {
			r.s.Loses(path, r.heads[path]) // to a version with the same bytes, say
		} else {
			r.s.Report(r.s.Admit(path, r.heads[path]), "")
		}
		if got := reasonOf(r.s.AdmitRemoval(path, r.heads[path])); got != want {
			t.Errorf("%s: reason %d, want %d", path, got, want)
		}
		r.read(path)
		if err := r.s.AdmitRemoval(path, r.heads[path]); err != nil {
			t.Errorf("%s was read: %v", path, err)
		}
	}
}

// TestRefusedUntilRead: a removal that was refused is meant once the memory has been read.
func TestRefusedUntilRead(t *testing.T) {
	r := newRig(t, nil, "/f")
	r.read("/f")
	r.theirs("/f", "theirs")
	r.follow()
	r.read("/f")
	for range 2 {
		err := r.s.AdmitRemoval("/f", r.heads["/f"])
		if reasonOf(err) != TakesBack {
			t.Fatal(err)
		}
		r.s.Report(err, "")
	}
	r.read("/f")
	if err := r.s.AdmitRemoval("/f", r.heads["/f"]); err != nil {
		t.Error(err)
	}
}
