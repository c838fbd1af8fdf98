package session

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"mneme/errkind"
	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/versionlog"
)

// direct makes a rig whose session has no follower, as that of a program.
func direct(t *testing.T, opts *Options, files ...string) *rig {
	r := newRig(t, opts, files...)
	o := r.s.opts
	o.Followed = false
	s := New(r.mine, &o)
	s.sleep, r.s = r.s.sleep, s
	t.Cleanup(s.Close)
	return r
}

func (r *rig) mustWrite(path, text string) versionlog.Version {
	r.Helper()
	v, err := r.s.Write(r.Context(), path, []byte(text), nil)
	r.must(err)
	return v
}

func (r *rig) mustRead(path, want string) versionlog.Version {
	r.Helper()
	v, data, err := r.s.Read(r.Context(), path)
	if err != nil || string(data) != want {
		r.Fatalf("%s holds %q, %v; want %q", path, data, err, want)
	}
	return v
}

// TestWrite: a session that knows a memory replaces what it knows, and nothing else; one
// that knows nothing replaces anything, unless it is strict.
func TestWrite(t *testing.T) {
	r := direct(t, keeping(t), "/f")
	blind := r.mustWrite("/f", "one")
	two := r.mustWrite("/f", "two")
	if two.Parent != blind.ID || two.Session != "mine" {
		t.Errorf("%+v does not follow %s", two, blind.ID)
	}
	if same := r.mustWrite("/f", "two"); same.ID != two.ID {
		t.Errorf("the same bytes are version %s, and %s", two.ID, same.ID)
	}
	r.theirs("/f", "theirs")
	_, err := r.s.Write(t.Context(), "/f", []byte("mine"), nil)
	wantLost(t, err, Changed)
	_, err = r.s.Write(t.Context(), "/f", []byte("mine again"), nil)
	wantLost(t, err, Changed)
	r.wantKept("mine", "mine again")
	r.mustRead("/f", "theirs")
	r.mustWrite("/f", "mine")
	r.s.Close()
	r.wantKept()

	r.theyRemove("/f")
	_, err = r.s.Write(t.Context(), "/f", []byte("mine"), nil)
	wantLost(t, err, Gone)
	if _, _, err := r.s.Read(t.Context(), "/f"); !errors.Is(err, versionlog.ErrNotFound) {
		t.Fatal(err)
	}
	r.mustWrite("/f", "anew")
	if _, _, err := r.s.Read(t.Context(), "/g"); !errors.Is(err, versionlog.ErrNotFound) {
		t.Fatal(err)
	}
	r.theirs("/g", "theirs")
	_, err = r.s.Write(t.Context(), "/g", []byte("mine"), nil)
	wantLost(t, err, Changed)
	r.wantSettled()
}

// TestWriteOnTheSameBytes: another version with the bytes that the session has read is no
// conflict.
func TestWriteOnTheSameBytes(t *testing.T) {
	r := direct(t, keeping(t), "/f")
	r.mustRead("/f", "/f")
	r.theirs("/f", "theirs")
	r.theirs("/f", "/f")
	r.mustWrite("/f", "mine")
	r.theirs("/f", "same")
	r.mustWrite("/f", "same")
	r.mustWrite("/f", "more")
	r.wantText("/f", "more")
}

// TestWriteStrict: a strict session replaces only what it has read, and keeps what it
// refuses.
func TestWriteStrict(t *testing.T) {
	opts := keeping(t)
	opts.Strict = true
	r := direct(t, opts, "/f")
	_, err := r.s.Write(t.Context(), "/f", []byte("mine"), nil)
	wantLost(t, err, NeverRead)
	r.wantKept("mine")
	r.mustRead("/f", "/f")
	r.mustWrite("/f", "mine")
	r.mustWrite("/n", "new")
	r.wantText("/f", "mine")
}

// TestWriteExpects: the caller's own condition replaces what the session knows, and bytes that
// fail under it are not kept.
func TestWriteExpects(t *testing.T) {
	r := direct(t, keeping(t), "/f")
	first := r.mustRead("/f", "/f")
	r.theirs("/f", "theirs")
	for _, expect := range []versionlog.Expectation{versionlog.ExpectVersion(first.ID), versionlog.ExpectAbsent()} {
		_, err := r.s.Write(t.Context(), "/f", []byte("mine"), &WriteOptions{Expect: &expect})
		var e *versionlog.ConflictError
		if !errors.As(err, &e) {
			t.Errorf("%v: %v", expect, err)
		}
	}
	r.wantKept()
	anything := versionlog.ExpectAny()
	v, err := r.s.Write(t.Context(), "/f", []byte("mine"), &WriteOptions{Expect: &anything, Message: "why", Meta: map[string]string{"model": "x"}, Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "ann"}})
	r.must(err)
	if v.Message != "why" || v.Actor.ID != "ann" || v.Session != "mine" {
		t.Errorf("%+v", v)
	}
	r.mustWrite("/f", "and on")
	r.theirs("/f", "theirs")
	_, err = r.s.Write(t.Context(), "/f", []byte("lost"), nil)
	wantLost(t, err, Changed)
	_, err = r.s.Write(t.Context(), "/f", []byte("decided"), &WriteOptions{Expect: &anything})
	r.must(err)
	if r.s.Close(); r.s.Journal().Len() != 0 {
		t.Error("the error stays though the session has written again")
	}
	r.wantKept()
}

// TestWriteKey: a key makes a write once, however often it is called.
func TestWriteKey(t *testing.T) {
	for _, known := range []bool{false, true} {
		r := direct(t, nil, "/f")
		if known {
			r.mustRead("/f", "/f")
		}
		var first versionlog.Version
		for i := range 3 {
			v, err := r.s.Write(t.Context(), "/f", []byte("mine"), &WriteOptions{Key: "key"})
			r.must(err)
			if i == 0 {
				first = v
				r.theirs("/f", "theirs")
			}
			if v.ID != first.ID {
				t.Errorf("made twice: %s, %s", first.ID, v.ID)
			}
		}
		r.wantText("/f", "theirs")
	}
}

// TestWriteAfterLostReply: the call after one whose reply was lost finds out what became of
// it, so that the session is not in conflict with itself.
func TestWriteAfterLostReply(t *testing.T) {
	for _, fate := range []logfault.Fate{logfault.Unheard, logfault.Unmade} {
		for name, call := range map[string]func(*rig) error{
			"write":  func(r *rig) error { _, err := r.s.Write(t.Context(), "/d/f", []byte("two"), nil); return err },
			"append": func(r *rig) error { _, err := r.s.Append(t.Context(), "/d/f", []byte("two"), nil); return err },
			"rename": func(r *rig) error { _, err := r.s.Rename(t.Context(), "/d", "/e", nil); return err },
			"remove": func(r *rig) error { _, err := r.s.Remove(t.Context(), "/d/f", nil); return err },
			"read":   func(r *rig) error { _, _, err := r.s.Read(t.Context(), "/d/f"); return err },
			"batch": func(r *rig) error {
				_, err := r.s.Batch(t.Context(), []memory.Change{{Action: versionlog.Put, Path: "/d/f", Content: []byte("two"), Expect: versionlog.ExpectExists()}}, nil)
				return err
			},
		} {
			t.Run(fmt.Sprint(fate, name), func(t *testing.T) {
				r := direct(t, keeping(t), "/d/f")
				r.mustRead("/d/f", "/d/f")
				r.log.SetFates(fate)
				_, err := r.s.Write(t.Context(), "/d/f", []byte("one"), nil)
				wantErr(t, err, errDown)
				r.must(call(r))
				if r.inHistory("one") == 0 {
					t.Error("the first write is not in the history")
				}
				r.wantKept()
				r.wantSettled()
			})
		}
	}
}

// TestSettledCallIsNotMadeAgain: what the next call finds in the log of one whose reply was
// lost, or makes then, is there once.
func TestSettledCallIsNotMadeAgain(t *testing.T) {
	for _, fate := range []logfault.Fate{logfault.Unheard, logfault.Unmade} {
		r := direct(t, keeping(t), "/f", "/g")
		r.log.SetFates(fate)
		_, err := r.s.Append(t.Context(), "/f", []byte("+one"), nil)
		wantErr(t, err, errDown)
		_, err = r.s.Append(t.Context(), "/f", []byte("+two"), nil)
		r.must(err)
		r.wantText("/f", "/f+one+two")

		r.mustRead("/g", "/g")
		r.log.SetFates(fate)
		_, err = r.s.Write(t.Context(), "/g", []byte("one"), nil)
		wantErr(t, err, errDown)
		if fate == logfault.Unheard {
			r.theirs("/g", "theirs")
		}
		_, _, err = r.s.Read(t.Context(), "/g")
		r.must(err)
		r.wantKept()
		r.wantSettled()
	}
}

// TestDoubtIsBounded: texts of calls whose replies were lost are not remembered without end.
func TestDoubtIsBounded(t *testing.T) {
	r := direct(t, nil)
	r.log.SetFate(func() logfault.Fate { return logfault.Unmade })
	for i := range 3 * maxLost {
		_, err := r.s.Append(t.Context(), fmt.Sprint("/", i), []byte("text"), nil)
		wantErr(t, err, errDown)
	}
	if len(r.s.doubtful) > maxLost || len(r.s.pending) > 2*maxLost {
		t.Errorf("%d texts and %d commits are remembered", len(r.s.doubtful), len(r.s.pending))
	}
}

// TestAppend: appends of many goroutines and another session are all there, each once.
func TestAppend(t *testing.T) {
	r := direct(t, keeping(t))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 5 {
				if _, err := r.s.Append(t.Context(), "/log", fmt.Appendf(nil, "<%d %d>\n", i, j), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for j := range 10 {
			_, data, err := r.other.Read(t.Context(), "/log")
			if err == nil {
				_, _ = r.other.Write(t.Context(), "/log", fmt.Appendf(data, "<other %d>\n", j), versionlog.ExpectAny())
			}
		}
	})
	all.Wait()
	_, data, err := r.other.Read(t.Context(), "/log")
	r.must(err)
	for i := range 8 {
		for j := range 5 {
			if line := fmt.Sprintf("<%d %d>\n", i, j); strings.Count(string(data), line) > 1 || r.inHistory(line) == 0 {
				t.Errorf("%q is there %d times", line, strings.Count(string(data), line))
			}
		}
	}
	r.wantSettled()
}

// TestRename: the session's knowledge moves along; the session does not make again a memory that
// it has moved unread.
func TestRename(t *testing.T) {
	r := direct(t, keeping(t), "/d/f", "/d/g")
	r.mustRead("/d/f", "/d/f")
	r.mustRead("/d/g", "/d/g")
	r.theirs("/d/g", "theirs")
	c, err := r.s.Rename(t.Context(), "/d", "/e", &WriteOptions{Message: "tidy"})
	r.must(err)
	if len(c.Versions) != 2 || c.Message != "tidy" {
		t.Errorf("%+v", c)
	}
	r.mustWrite("/e/f", "mine")
	r.mustWrite("/d/f", "anew")
	_, err = r.s.Write(t.Context(), "/e/g", []byte("mine"), nil)
	wantLost(t, err, Changed)
	_, err = r.s.Write(t.Context(), "/d/g", []byte("mine"), nil)
	if lost := wantLost(t, err, MovedUnread); lost.At != "/e/g" {
		t.Errorf("%+v", lost)
	}
	_, err = r.s.Edit(t.Context(), "/d/g", func(Seen) ([]byte, error) { return []byte("edited"), nil }, nil)
	wantLost(t, err, MovedUnread)
	_, err = r.s.Rename(t.Context(), "/d/f", "/d/g", nil)
	wantLost(t, err, MovedUnread)
	for _, back := range [][2]string{{"/e/g", "/d/g"}, {"/d/g", "/e/g"}} { // by itself it may
		_, err = r.s.Rename(t.Context(), back[0], back[1], nil)
		r.must(err)
	}
	r.wantKept("mine", "mine")
	r.mustRead("/e/g", "theirs")
	r.mustWrite("/d/g", "mine")
	if _, err := r.s.Rename(t.Context(), "/none", "/n", nil); !errors.Is(err, versionlog.ErrNotFound) {
		t.Error(err)
	}
}

// TestRemove: a session removes what it knows.
func TestRemove(t *testing.T) {
	r := direct(t, nil, "/blind", "/f", "/g", "/d/a", "/d/b")
	v, err := r.s.Remove(t.Context(), "/blind", nil)
	if err != nil || v.Op != versionlog.OpDeleted {
		t.Errorf("%+v, %v", v, err)
	}
	_, err = r.s.Remove(t.Context(), "/blind", nil)
	wantErr(t, err, versionlog.ErrNotFound)
	r.mustRead("/f", "/f")
	r.theirs("/f", "theirs")
	_, err = r.s.Remove(t.Context(), "/f", nil)
	wantLost(t, err, Changed)
	r.mustRead("/f", "theirs")
	_, err = r.s.Remove(t.Context(), "/f", nil)
	r.must(err)
	r.mustRead("/g", "/g")
	r.theirs("/g", "theirs")
	r.mustRead("/g", "theirs")
	_, err = r.s.Remove(t.Context(), "/g", nil)
	wantLost(t, err, TakesBack)
	r.mustRead("/g", "theirs")
	_, err = r.s.Remove(t.Context(), "/g", nil)
	r.must(err)
	r.theirs("/g", "theirs")
	_, err = r.s.Write(t.Context(), "/g", []byte("mine"), nil)
	wantLost(t, err, Changed) // it knows that there is nothing
	_, _, err = r.s.Read(t.Context(), "/n")
	wantErr(t, err, versionlog.ErrNotFound)
	_, err = r.s.Remove(t.Context(), "/n", nil)
	wantErr(t, err, versionlog.ErrNotFound)
	r.theirs("/n", "theirs")
	_, err = r.s.Remove(t.Context(), "/n", nil)
	wantLost(t, err, Changed)
	r.mustRead("/n", "theirs")
	_, err = r.s.Remove(t.Context(), "/n", nil)
	r.must(err)
	c, err := r.s.RemoveTree(t.Context(), "/d", nil)
	if err != nil || len(c.Versions) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
	_, err = r.s.RemoveTree(t.Context(), "/d", nil)
	wantErr(t, err, versionlog.ErrNotFound)
	expect := versionlog.ExpectVersion("memver_0")
	_, err = r.s.Remove(t.Context(), "/g", &WriteOptions{Expect: &expect})
	wantErr(t, err, versionlog.ErrConflict)
}

// TestRestore: a version that is restored is known.
func TestRestore(t *testing.T) {
	r := direct(t, nil, "/f")
	first, err := r.other.Head(t.Context(), "/f")
	r.must(err)
	r.theirs("/f", "theirs")
	v, err := r.s.Restore(t.Context(), "/f", first, nil)
	if err != nil || v.Message != "restore "+first.ID || v.Digest != first.Digest {
		t.Errorf("%+v, %v", v, err)
	}
	if same, err := r.s.Restore(t.Context(), "/f", first, nil); err != nil || same.ID != v.ID {
		t.Errorf("%+v, %v", same, err)
	}
	r.mustWrite("/f", "mine")
}

// TestBatch: all changes are made, or none; what was made is known.
func TestBatch(t *testing.T) {
	r := direct(t, keeping(t), "/a", "/b")
	r.mustRead("/a", "/a")
	r.theirs("/a", "theirs")
	put := func(path, text string, expect versionlog.Expectation) memory.Change {
		return memory.Change{Action: versionlog.Put, Path: path, Content: []byte(text), Expect: expect}
	}
	_, err := r.s.Batch(t.Context(), []memory.Change{put("/n", "new", versionlog.ExpectAbsent()), put("/a", "mine", versionlog.ExpectDigest(versionAt(0, "", "/a").Digest))}, nil)
	wantErr(t, err, versionlog.ErrConflict)
	r.wantText("/n", "")
	r.wantKept()
	c, err := r.s.Batch(t.Context(), []memory.Change{
		put("/n", "new", versionlog.ExpectAbsent()), put("/a", "mine", versionlog.ExpectAny()),
		{Action: versionlog.Rename, Path: "/b", To: "/c", Expect: versionlog.ExpectExists()},
	}, &WriteOptions{Key: "key", Message: "all"})
	if err != nil || len(c.Versions) != 3 {
		t.Fatalf("%+v, %v", c, err)
	}
	again, err := r.s.Batch(t.Context(), []memory.Change{put("/a", "other", versionlog.ExpectAny())}, &WriteOptions{Key: "key"})
	if err != nil || again.Seq != c.Seq {
		t.Errorf("made twice: %+v, %v", again, err)
	}
	r.mustWrite("/a", "and on")
	r.mustWrite("/n", "and on")
}

// TestBudget: calls and bytes beyond it are refused, and cost nothing.
func TestBudget(t *testing.T) {
	b := NewBudget(4, 10)
	r := direct(t, &Options{Budget: b}, "/f")
	r.mustRead("/f", "/f")
	_, err := r.s.Write(t.Context(), "/f", bytes.Repeat([]byte("x"), 9), nil)
	wantErr(t, err, ErrOverBudget)
	if errkind.Of(err) != errkind.OverQuota {
		t.Errorf("kind %v", errkind.Of(err))
	}
	r.mustWrite("/f", "12345678")
	if calls, bytes := b.Used(); calls != 2 || bytes != 10 {
		t.Errorf("used %d calls, %d bytes", calls, bytes)
	}
	_, _, err = r.s.Read(t.Context(), "/f")
	wantErr(t, err, ErrOverBudget)
	if over := (*BudgetError)(nil); !errors.As(err, &over) || *over != (BudgetError{What: "bytes", Limit: 10, Used: 10, More: 8}) {
		t.Errorf("%+v", err)
	}
	if calls, bytes := b.Left(); calls != 1 || bytes != 0 {
		t.Errorf("%d calls and %d bytes are left", calls, bytes)
	}
	_, err = r.s.Remove(t.Context(), "/f", nil)
	r.must(err)
	_, err = r.s.Remove(t.Context(), "/f", nil)
	wantErr(t, err, ErrOverBudget)
	b.Reset()
	r.mustWrite("/f", "1")
}

// TestPathsAreParsed: a path in another form is the same memory; a bad one is refused.
func TestPathsAreParsed(t *testing.T) {
	r := direct(t, nil)
	r.mustWrite("/e\u0301", "one")
	r.mustWrite("/\u00e9", "two")
	r.mustRead("/\u00e9", "two")
	_, err := r.s.Write(t.Context(), "no slash", nil, nil)
	if errkind.Of(err) != errkind.Invalid {
		t.Error(err)
	}
}
