package fusefs

import (
	"cmp"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cache"
	"mneme/cas"
	"mneme/forget"
	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// redact erases each version that can be, whether the mount has followed it or not.
func (r *rig) redact() {
	r.Helper()
	info := r.other.Info()
	for c, err := range r.other.Commits(r.Context(), 0) {
		r.must(err)
		for _, v := range c.Versions {
			_, err := r.log.Log.Commit(r.Context(), info.ID, &versionlog.Proposal{
				Key: versionlog.NewKey(), Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "other"}, Message: "a test", Epoch: info.Epoch, Event: versionlog.StoreRedacted(v.ID),
			})
			if err != nil && !errors.Is(err, versionlog.ErrLiveHead) {
				r.Fatal(err)
			}
		}
	}
}

// TestRetentionIsFollowed: when the rule of the store has let go of a version, the mount shows it
// no more, wherever it has looked at it before, and what is there now as before.
func TestRetentionIsFollowed(t *testing.T) {
	r := newRig(t, "/a")
	r.write("/a", "now")
	r.follow()
	was := r.wantLookup("/.mneme/at/1/a", fuse.OK)
	fh, status := r.open(was.NodeId, syscall.O_RDONLY)
	r.must(errOf(status))
	if text := r.read(was.NodeId, fh); text != "/a" {
		t.Fatalf("it was %q", text)
	}
	lib := memory.NewLibrary(r.log.Log, func(string) (cas.Store, error) { return r.blobs, nil })
	one := int64(1)
	user := &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "other"}}
	_, err := lib.UpdateStore(r.Context(), r.other.Info().ID, versionlog.StoreUpdate{KeepVersions: &one}, user.Actor)
	r.must(err)
	st, err := lib.Open(r.Context(), r.other.Info().ID, user)
	r.must(err)
	expired, err := forget.FindExpired(r.Context(), st, time.Now(), 0, func(int, int) {})
	r.must(err)
	done, err := forget.LetGo(r.Context(), st, expired, func(int, int) {})
	r.must(err)
	if len(done.Versions) != 1 {
		t.Fatalf("%+v", done)
	}
	r.follow()
	r.wantLookup("/.mneme/at/1/a", fuse.ENOENT)
	r.wantLookup("/.mneme/at/2/a", fuse.OK)
	r.wantLookup("/.mneme/versions/a/1", fuse.ENOENT)
	if _, status := r.front().Read(nil, &fuse.ReadIn{InHeader: header(was.NodeId), Fh: fh, Size: 100}, make([]byte, 100)); status.Ok() {
		t.Error("an open file is still read")
	}
	r.wantNames("/", "a")
}

// TestErasedIsFollowed has a mount meet versions that were erased before it has followed them.
func TestErasedIsFollowed(t *testing.T) {
	for name, do := range map[string]func(r *rig) (want []string){
		"made and removed": func(r *rig) []string {
			r.write("/new", "x")
			r.remove("/new")
			return []string{"a", "b"}
		},
		"removed": func(r *rig) []string {
			r.remove("/a")
			return []string{"b"}
		},
		"changed twice": func(r *rig) []string {
			r.write("/a", "x")
			r.write("/a", "y")
			return []string{"a", "b"}
		},
		"moved, and changed": func(r *rig) []string {
			_, err := r.other.Rename(r.Context(), "/a", "/c", nil)
			r.must(err)
			r.write("/c", "y")
			return []string{"b", "c"}
		},
		"moved, and removed": func(r *rig) []string {
			_, err := r.other.Rename(r.Context(), "/a", "/c", nil)
			r.must(err)
			r.remove("/c")
			return []string{"b"}
		},
		"a directory": func(r *rig) []string {
			_, err := r.other.MakeDir(r.Context(), "/d", versionlog.ExpectAbsent(), nil)
			r.must(err)
			r.follow()
			_, err = r.other.RemoveTree(r.Context(), "/d", nil, nil)
			r.must(err)
			return []string{"a", "b"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "/a", "/b")
			r.wantNames("/", "a", "b")
			want := do(r)
			r.redact()
			r.follow()
			r.wantNames("/", want...)
		})
	}
}

// TestErasedUnderAnEdit: what is being written to a memory of which the mount meets erased
// versions is not lost.
func TestErasedUnderAnEdit(t *testing.T) {
	for _, removed := range []bool{false, true} {
		r := newRig(t, "/a")
		r.keep()
		fh := r.dirty("/a", "unsaved")
		r.write("/a", "theirs")
		if removed {
			r.remove("/a")
		} else {
			r.write("/a", "theirs, too")
		}
		r.redact()
		r.follow()
		status := r.close(fh)
		kept := strings.Contains(r.errorsSay(), "your text is kept")
		if !status.Ok() && !kept || status.Ok() && !r.inHistory("unsaved") {
			t.Errorf("removed %v: what was written is nowhere: %v, %q", removed, status, r.errorsSay())
		}
	}
}

// TestErasedBeforeReply: the reply of a commit is lost, and its version erased before the
// follower meets it; what was written since is committed, or kept.
func TestErasedBeforeReply(t *testing.T) {
	for _, more := range []bool{false, true} {
		for _, removed := range []bool{false, true} {
			r := newRig(t)
			r.keep()
			fh := r.dirtyWith("/f", "", syscall.O_WRONLY|syscall.O_APPEND)
			r.appendTo(fh, "one\n")
			r.log.SetFates(logfault.Unheard)
			r.fsync(fh, fuse.EIO)
			if more {
				r.appendTo(fh, "two\n")
			}
			if removed {
				r.remove("/f")
			} else {
				r.write("/f", "theirs\n")
			}
			r.redact()
			r.follow()
			status := r.close(fh)
			kept := strings.Contains(r.errorsSay(), "your text is kept")
			r.follow()
			if more && !kept {
				_, data, err := r.other.Read(t.Context(), "/f")
				if err != nil || !strings.Contains(string(data), "two\n") {
					t.Errorf("removed %v: what was written since is nowhere: %q, %v, %v", removed, data, err, status)
				}
			}
		}
	}
}

// TestErasedBeforeReplyOfNames: the log finds a commit whose reply it has lost, and whose
// versions were erased in the meantime, since another session has changed what it made.
func TestErasedBeforeReplyOfNames(t *testing.T) {
	for name, c := range map[string]struct {
		before func(r *rig) fuse.Status
		do     func(r *rig) fuse.Status
		theirs func(r *rig)
		want   []string
	}{
		"a file that is made": {
			nil, func(r *rig) fuse.Status { return r.save("/new", "x", syscall.O_CREAT) },
			func(r *rig) { r.remove("/new") }, []string{"a", "b", "d"},
		},
		"a file that is written": {
			nil, func(r *rig) fuse.Status { return r.save("/a", "x", syscall.O_TRUNC) },
			func(r *rig) { r.write("/a", "theirs") }, []string{"a", "b", "d"},
		},
		"a rename": {
			nil, func(r *rig) fuse.Status { return r.rename("/a", "/c", 0) },
			func(r *rig) { r.write("/c", "theirs") }, []string{"b", "c", "d"},
		},
		"a rename of what is removed": {
			nil, func(r *rig) fuse.Status { return r.rename("/a", "/c", 0) },
			func(r *rig) { r.remove("/c") }, []string{"b", "d"},
		},
		"a rename over a file": {
			nil, func(r *rig) fuse.Status { return r.rename("/a", "/b", 0) },
			func(r *rig) { r.write("/b", "theirs") }, []string{"b", "d"},
		},
		"a file that is saved by a rename": {
			func(r *rig) fuse.Status { return r.save("/.new.tmp", "x", syscall.O_CREAT) },
			func(r *rig) fuse.Status { return r.rename("/.new.tmp", "/new", 0) },
			func(r *rig) { r.remove("/new") }, []string{"a", "b", "d"},
		},
		"a rename of a directory": {
			nil, func(r *rig) fuse.Status { return r.rename("/d", "/e", 0) },
			func(r *rig) { r.write("/e/f", "theirs") }, []string{"a", "b", "e"},
		},
		"a directory that is made": {
			nil, func(r *rig) fuse.Status { return r.mkdir("/new") },
			func(r *rig) {
				_, err := r.other.RemoveDir(r.Context(), "/new", nil)
				r.must(err)
			}, []string{"a", "b", "d"},
		},
		"a removal": {
			nil, func(r *rig) fuse.Status { return r.unlink("/a") },
			func(r *rig) { r.write("/a", "theirs") }, []string{"a", "b", "d"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "/a", "/b", "/d/f")
			r.walk()
			r.readOnce("/a")
			if c.before != nil {
				r.wantOK(c.before(r))
			}
			r.log.SetFates(logfault.Settled)
			r.log.Next(logfault.AfterCommit, func() {
				c.theirs(r)
				r.redact()
			})
			if status := c.do(r); !status.Ok() && status != fuse.Status(syscall.ESTALE) {
				t.Errorf("status %v", status)
			}
			r.follow()
			r.wantNames("/", c.want...)
			r.wantAsLog()
		})
	}
}

// TestErasedWhileNobodyServed: the kernel looks up again what it knows when it may have missed what
// an erased version has changed.
func TestErasedWhileNobodyServed(t *testing.T) {
	r := newRig(t, "/a", "/b")
	root := r.known("/")
	journal := r.hand()
	r.wantText("/a", "/a")
	r.noteAnswer()
	r.remove("/a")
	r.redact()
	next, _ := r.takeOver(journal)
	next.awaitNotices()
	if !next.kernel.forgot(root, "a") {
		t.Error("the kernel is not told that /a may be gone")
	}
	next.wantNames("/", "b")
}

// TestErasedOfThePast has a mount of the past follow a redaction: what was erased is not there any
// more, in no cache either, and the rest is.
func TestErasedOfThePast(t *testing.T) {
	for _, loaded := range []bool{false, true} {
		r := newRig(t, "/a", "/b")
		_, err := r.other.MakeDir(r.Context(), "/d", versionlog.ExpectAbsent(), nil)
		r.must(err)
		tip, err := r.other.Tip(r.Context())
		r.must(err)
		for _, path := range []string{"/a", "/c"} {
			r.write(path, "later")
		}
		_, err = r.other.RemoveDir(r.Context(), "/d", nil)
		r.must(err)
		caches, err := cache.New(r.blobs, nil)
		r.must(err)
		t.Cleanup(caches.Close)
		lib := memory.NewLibrary(r.log, func(string) (cas.Store, error) { return caches, nil })
		past, err := lib.OpenAt(t.Context(), r.other.Info().ID, tip.Seq)
		r.must(err)
		m := r.mounted(past)
		m.followBeside()
		if loaded {
			m.walk()
		}
		m.wantNames("/", "a", "b", "d")
		m.wantText("/a", "/a")
		a := m.wantLookup("/a", fuse.OK).NodeId
		v, err := past.Head(t.Context(), "/a")
		r.must(err)
		r.write("/b", "later")
		r.redact() // the first of /a and of /b, and both of /d
		r.must(r.blobs.(cas.Deleter).Delete(t.Context(), v.Digest))
		now, err := r.other.Tip(r.Context())
		r.must(err)
		m.awaitShown(now.Seq)
		m.wantNames("/")
		m.wantLookup("/a", fuse.ENOENT)
		if result, status := m.front().Read(nil, &fuse.ReadIn{InHeader: header(a)}, make([]byte, 4096)); status.Ok() {
			text, _ := result.Bytes(nil)
			t.Errorf("loaded %v: what the kernel knew is %q", loaded, text)
		}
		if data, err := past.Content(t.Context(), v); err == nil {
			t.Errorf("loaded %v: the cache has %q", loaded, data)
		}
	}
}

// TestErasedInConflicts: a mount that follows a redaction erases what it keeps of the versions,
// since who redacts may sit at another machine; what a rule lets go of stays until it expires.
func TestErasedInConflicts(t *testing.T) {
	r := newRig(t, "/a")
	kept := conflict.New(r.TempDir())
	r.keepIn(kept)
	r.Cleanup(func() { // before the directory is removed
		r.stop()
		r.awaitTasks()
	})
	r.write("/a", "now")
	r.follow()
	keep := func(version string) {
		_, err := kept.Keep(conflict.About{Path: "/a", Time: time.Now(), Session: "s", Base: &conflict.Side{Version: version, Path: "/a"}},
			conflict.Texts{Base: []byte("the base"), Yours: []byte("of " + version)})
		r.must(err)
	}
	erased := ""
	for c, err := range r.other.Commits(r.Context(), 0) {
		r.must(err)
		for _, v := range c.Versions {
			erased = cmp.Or(erased, v.ID)
		}
	}
	keep(erased)
	keep("another")
	r.redact()
	r.follow()
	if r.kept("of "+erased) || !r.kept("of another") {
		t.Errorf("that of the erased version is kept: %v, another: %v", r.kept("of "+erased), r.kept("of another"))
	}
}

// TestErasedWhileNobodyFollowed: a mount that begins after a redaction erases all that is kept of
// the versions, as TestErasedInConflicts, and drops all that it has read of a version whose
// redaction may be under way; so does a mount of the past.
func TestErasedWhileNobodyFollowed(t *testing.T) {
	r := newRig(t, "/a")
	r.write("/a", "now")
	lib := r.library()
	mounts := func() map[string]*rig {
		past, err := lib.OpenAt(r.Context(), r.other.Info().ID, 1)
		r.must(err)
		return map[string]*rig{"now": r.beside(), "past": r.mounted(past)}
	}
	var erased string
	for c, err := range r.other.Commits(r.Context(), 0) {
		r.must(err)
		for _, v := range c.Versions {
			erased = cmp.Or(erased, v.ID)
		}
	}
	kept := conflict.New(r.TempDir())
	keep := func(version string) {
		_, err := kept.Keep(conflict.About{Path: "/a", Time: time.Now(), Session: "s", Theirs: &conflict.Side{Version: version, Path: "/a"}},
			conflict.Texts{Yours: []byte("of " + version)})
		r.must(err)
	}
	keep("another")
	for name, m := range mounts() {
		keep(erased)
		m.keepIn(kept)
		if letsGo := m.missed(); !m.kept("of "+erased) || letsGo {
			t.Errorf("%s: something is taken for erased", name)
		}
	}
	r.redact()
	for name, m := range mounts() {
		keep(erased)
		m.keepIn(kept)
		letsGo := m.missed()
		if m.kept("of "+erased) || !m.kept("of another") {
			t.Errorf("%s: that of the erased version is kept: %v, another: %v", name, m.kept("of "+erased), m.kept("of another"))
		}
		if !letsGo {
			t.Errorf("%s: what it has read of the redaction is kept", name)
		}
	}
}
