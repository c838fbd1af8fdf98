package session

import (
	"testing"

	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/versionlog"
)

// TestReadBesideOwnChange: what the session changes while another of its calls reads the path it
// knows afterwards, so that it is not in conflict with itself.
func TestReadBesideOwnChange(t *testing.T) {
	r := direct(t, keeping(t), "/f", "/g")
	beside := func(change func()) {
		r.log.Next(logfault.AfterHead, change)
	}
	r.mustRead("/f", "/f")
	beside(func() { r.mustWrite("/f", "one") })
	r.mustRead("/f", "/f")
	r.mustWrite("/f", "two")
	beside(func() { r.mustWrite("/n", "one") })
	_, _, err := r.s.Read(t.Context(), "/n")
	wantErr(t, err, versionlog.ErrNotFound)
	r.mustWrite("/n", "two")
	r.mustRead("/g", "/g")
	beside(func() {
		_, err := r.s.Remove(t.Context(), "/g", nil)
		r.must(err)
	})
	r.mustRead("/g", "/g")
	r.mustWrite("/g", "two")
	r.wantKept()
}

// TestReadInDoubt: while the outcome of an earlier change of the path is not known, a version
// that is read is known if another session has made it, and else not, so that it is not taken for
// another's.
func TestReadInDoubt(t *testing.T) {
	r := direct(t, keeping(t), "/f", "/g", "/h")
	r.mustRead("/f", "/f")
	r.log.SetFates(logfault.Unheard, logfault.Unmade, logfault.Unmade)
	_, err := r.s.Rename(t.Context(), "/f", "/to", nil)
	wantErr(t, err, errDown)
	_, _, err = r.s.Read(t.Context(), "/f")
	wantErr(t, err, versionlog.ErrNotFound)
	r.theirs("/to", "theirs")
	r.mustRead("/to", "theirs")
	r.mustWrite("/to", "mine")

	r.log.SetFates(logfault.Unheard, logfault.Unmade)
	_, err = r.s.Write(t.Context(), "/g", []byte("blind"), nil)
	wantErr(t, err, errDown)
	r.theirs("/g", "theirs")
	r.mustRead("/g", "theirs")
	r.mustWrite("/g", "mine")

	r.mustRead("/h", "/h")
	r.log.SetFates(logfault.Unheard, logfault.Unmade)
	_, err = r.s.Write(t.Context(), "/h", []byte("one"), nil)
	wantErr(t, err, errDown)
	r.mustRead("/h", "one")
	r.mustWrite("/h", "/h") // takes no change back
	r.wantKept()
}

// TestSameBytesThatGo: a write that finds its bytes there, which another session then replaces, does
// not know what that has made, and is on top of it.
func TestSameBytesThatGo(t *testing.T) {
	r := direct(t, keeping(t), "/f")
	r.log.Next(logfault.AfterCommit, func() { r.theirs("/f", "theirs") })
	r.mustWrite("/f", "/f")
	if r.wantText("/f", "/f"); r.inHistory("theirs") == 0 {
		t.Error("theirs is not in the history")
	}
	r = direct(t, keeping(t), "/f")
	r.log.Next(logfault.AfterCommit, func() { r.theyRemove("/f") })
	r.mustWrite("/f", "/f")
	swap := versionlog.ExpectExists()
	r.log.Next(logfault.AfterCommit, func() { r.theirs("/f", "theirs") })
	_, err := r.s.Write(t.Context(), "/f", []byte("/f"), &WriteOptions{Expect: &swap, Swap: true})
	wantErr(t, err, versionlog.ErrConflict)
	r.wantText("/f", "theirs")
}

// TestRemoveTreeBesideAChange: what another session changes before a tree is listed is not removed.
func TestRemoveTreeBesideAChange(t *testing.T) {
	for _, at := range []logfault.Point{logfault.AfterHead, logfault.AfterPage, logfault.BeforeCommit} {
		r := direct(t, keeping(t), "/d/f")
		r.mustRead("/d/f", "/d/f")
		changed := false
		r.log.Next(at, func() {
			changed = true
			r.theirs("/d/f", "theirs")
		})
		_, err := r.s.RemoveTree(t.Context(), "/d", nil)
		if changed {
			wantErr(t, err, versionlog.ErrConflict)
			r.wantText("/d/f", "theirs")
		} else {
			r.must(err)
		}
	}
}

// TestKeyIsAnsweredFirst: a call under a key that was used is answered with the commit that was made,
// whatever has become of its paths, and the session knows what it has made since.
func TestKeyIsAnsweredFirst(t *testing.T) {
	opts := &WriteOptions{Key: "key"}
	put := []memory.Change{{Action: versionlog.Put, Path: "/d/f", Content: []byte("batch"), Expect: versionlog.ExpectExists()}}
	once := func(seen Seen) ([]byte, error) {
		if string(seen.Content) != "/d/f" {
			return nil, versionlog.ErrNotFound
		}
		return []byte("edited"), nil
	}
	for name, call := range map[string]func(*rig) (string, error){
		"write": func(r *rig) (string, error) {
			v, err := r.s.Write(t.Context(), "/d/f", []byte("written"), opts)
			return v.ID, err
		},
		"remove": func(r *rig) (string, error) { v, err := r.s.Remove(t.Context(), "/d/f", opts); return v.ID, err },
		"edit":   func(r *rig) (string, error) { v, err := r.s.Edit(t.Context(), "/d/f", once, opts); return v.ID, err },
		"batch":  func(r *rig) (string, error) { c, err := r.s.Batch(t.Context(), put, opts); return firstOf(c).ID, err },
		"rename": func(r *rig) (string, error) {
			c, err := r.s.Rename(t.Context(), "/d", "/e", opts)
			return firstOf(c).ID, err
		},
		"remove tree": func(r *rig) (string, error) {
			c, err := r.s.RemoveTree(t.Context(), "/d", opts)
			return firstOf(c).ID, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := direct(t, keeping(t), "/d/f")
			r.mustRead("/d/f", "/d/f")
			first, err := call(r)
			r.must(err)
			for i := range 3 {
				switch i {
				case 1:
					r.mustWrite("/d/f", "since")
				case 2:
					r.theirs("/d/f", "theirs")
				}
				if again, err := call(r); err != nil || again != first {
					t.Errorf("%s, %v; want %s", again, err, first)
				}
				if i == 1 {
					r.mustWrite("/d/f", "more")
				}
			}
			r.wantText("/d/f", "theirs")
			r.wantKept()
		})
	}
}

// TestRenameDirOverWhatMovedUnread: a directory does not make again a memory that was moved away
// unread.
func TestRenameDirOverWhatMovedUnread(t *testing.T) {
	r := direct(t, keeping(t), "/d/f", "/new/f", "/other/g")
	r.mustRead("/d/f", "/d/f")
	r.theirs("/d/f", "theirs")
	_, err := r.s.Rename(t.Context(), "/d", "/old", nil)
	r.must(err)
	_, err = r.s.Rename(t.Context(), "/new", "/d", nil)
	if lost := wantLost(t, err, MovedUnread); lost.At != "/old/f" || lost.Path != "/d/f" {
		t.Errorf("%+v", lost)
	}
	for _, move := range [][2]string{{"/other", "/d"}, {"/d", "/other"}, {"/old", "/d"}, {"/d", "/old"}} { // without it, and by itself
		_, err = r.s.Rename(t.Context(), move[0], move[1], nil)
		r.must(err)
	}
	r.mustRead("/old/f", "theirs")
	_, err = r.s.Rename(t.Context(), "/new", "/d", nil)
	r.must(err)
}

// TestKeyIsAnsweredToAnother: a session that may not write is told nevertheless what was written
// under the key before, and one that has removed that since knows that it is gone. A call that
// had nothing to do is done again.
func TestKeyIsAnsweredToAnother(t *testing.T) {
	opts := &WriteOptions{Key: "key"}
	for name, call := range map[string]func(*Session) (versionlog.Version, error){
		"write":  func(s *Session) (versionlog.Version, error) { return s.Write(t.Context(), "/f", []byte("mine"), opts) },
		"append": func(s *Session) (versionlog.Version, error) { return s.Append(t.Context(), "/f", []byte("mine"), opts) },
	} {
		t.Run(name, func(t *testing.T) {
			r := direct(t, keeping(t), "/f")
			first, err := call(r.s)
			r.must(err)
			o := r.s.opts
			o.Strict = true
			next := New(r.mine, &o)
			t.Cleanup(next.Close)
			if v, err := call(next); err != nil || v.ID != first.ID {
				t.Errorf("%s, %v; want %s", v.ID, err, first.ID)
			}
			_, err = r.s.Remove(t.Context(), "/f", nil)
			r.must(err)
			_, err = call(r.s)
			r.must(err)
			r.mustWrite("/f", "anew")
			r.wantKept()
			for range 2 {
				v, err := r.s.Write(t.Context(), "/f", []byte("anew"), &WriteOptions{Key: "other"})
				if r.must(err); v.ID == "" {
					t.Error("the same bytes are no version")
				}
			}
		})
	}
}
