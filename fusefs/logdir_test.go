package fusefs

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
	"mneme/versionlog"
)

func (r *rig) othersDir(path string) {
	r.Helper()
	_, err := r.other.MakeDir(r.Context(), path, versionlog.ExpectAbsent(), nil)
	r.must(err)
}

func (r *rig) othersRmdir(path string) {
	r.Helper()
	_, err := r.other.RemoveDir(r.Context(), path, nil)
	r.must(err)
}

func (r *rig) tryRmdir(path string) fuse.Status {
	dir, name := r.parent(path)
	in := header(dir)
	return r.fs.Rmdir(nil, &in, name)
}

// wantDirs checks which directories the log has.
func (r *rig) wantDirs(want ...string) {
	r.Helper()
	var got []string
	for v, err := range r.other.Tree(r.Context(), "/") {
		r.must(err)
		if v.IsDir() {
			got = append(got, v.Path)
		}
	}
	if !slices.Equal(got, want) {
		r.Errorf("the log has the directories %q, want %q", got, want)
	}
}

// dirsDiffer says how the directories that the log has itself differ from those of the
// tree that are marked so, or "". Caller holds fs.mu.
func (r *rig) dirsDiffer() string {
	var log, tree []string
	for v, err := range r.other.Tree(r.Context(), "/") {
		r.must(err)
		if v.IsDir() {
			log = append(log, v.Path)
		}
	}
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		if n.marker != 0 {
			tree = append(tree, path+"/")
		}
		for name, c := range n.children {
			if c.isDir() {
				walk(c, path+"/"+name)
			}
		}
		for name, d := range n.hiddenDirs {
			walk(d, path+"/"+name)
		}
	}
	walk(r.s.root, "")
	slices.Sort(tree)
	if slices.Sort(log); !slices.Equal(log, tree) {
		return fmt.Sprintf("the log has the directories %q, the tree %q", log, tree)
	}
	return ""
}

// TestLogDirs: a directory is in the log when mkdir returns and until rmdir does, and
// other sessions' appear and go, also with what is in them.
func TestLogDirs(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.walk(t.Context()))
	r.wantOK(r.mkdir("/d"))
	r.wantOK(r.mkdir("/d/e"))
	r.wantDirs("/d/", "/d/e/")
	if status := r.mkdir("/d"); status != fuse.Status(syscall.EEXIST) {
		t.Errorf("made twice: %v", status)
	}
	if status := r.tryRmdir("/d"); status != fuse.Status(syscall.ENOTEMPTY) {
		t.Errorf("removed though something is in it: %v", status)
	}
	r.rmdir("/d/e")
	r.wantDirs("/d/")
	r.follow()
	r.wantLookup("/d", fuse.OK)
	r.wantLookup("/d/e", fuse.ENOENT)

	r.othersDir("/o")
	r.othersDir("/o/p")
	r.othersRmdir("/d")
	r.follow()
	r.wantLookup("/o/p", fuse.OK)
	r.wantLookup("/d", fuse.ENOENT)
	r.write("/o/p/f", "text")
	r.follow()
	r.must(errOf(r.unlink("/o/p/f")))
	r.wantDirs("/o/", "/o/p/")
	r.wantLookup("/o/p", fuse.OK)
	_, err := r.other.Rename(t.Context(), "/o", "/moved", nil)
	r.must(err)
	r.follow()
	r.wantLookup("/moved/p", fuse.OK)
	r.wantLookup("/o", fuse.ENOENT)
	r.othersDir("/stays")
	r.write("/stays/f", "text")
	r.follow()
	r.must(errOfOther(r.other.Remove(t.Context(), "/stays/f", versionlog.ExpectExists())))
	r.follow()
	r.wantLookup("/stays", fuse.OK)
	r.write("/implied/f", "text")
	r.follow()
	r.must(errOfOther(r.other.Remove(t.Context(), "/implied/f", versionlog.ExpectExists())))
	r.follow()
	r.wantLookup("/implied", fuse.ENOENT) // which nobody has made
}

func errOfOther(_ versionlog.Version, err error) error { return err }

// TestLogDirsMeet: of several sessions one makes a directory, and one removes it, also
// where the mount has not heard of the others.
func TestLogDirsMeet(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.walk(t.Context()))
	r.othersDir("/d")
	if status := r.mkdir("/d"); status != fuse.Status(syscall.EEXIST) {
		t.Errorf("made behind another session: %v", status)
	}
	r.wantLookup("/d", fuse.OK) // at once
	r.wantLookup("/d", fuse.OK)
	r.write("/d/x", "text")
	if status := r.tryRmdir("/d"); status != fuse.Status(syscall.ENOTEMPTY) {
		t.Errorf("removed behind another session's file: %v", status)
	}
	r.follow()
	r.wantLookup("/d/x", fuse.OK)
	r.wantDirs("/d/")

	r.wantOK(r.mkdir("/e"))
	r.follow()
	r.othersRmdir("/e")
	if status := r.tryRmdir("/e"); status != fuse.ENOENT {
		t.Errorf("removed behind another session's rmdir: %v", status)
	}
	r.follow()
	r.wantLookup("/e", fuse.ENOENT)

	r.othersDir("/f")
	r.follow()
	r.wantLookup("/f", fuse.OK)
	r.othersRmdir("/f")
	if fh, status := r.make("/f/new"); status.Ok() { // it brings the directory back
		r.release(fh)
		r.follow()
		r.wantLookup("/f/new", fuse.OK)
	} else if status != fuse.ENOENT {
		t.Errorf("made in a directory that is gone: %v", status)
	}
}

// TestLogDirsWhileLoading: a directory with nothing in it is found before all heads are
// known, and listed.
func TestLogDirsWhileLoading(t *testing.T) {
	r := newRig(t, "/a", "/d/x", "/z")
	r.othersDir("/empty")
	r.othersDir("/d/in")
	r.othersDir("/d/in/deep")
	r.must(r.s.begin(t.Context()))
	r.walkTo(0, func() {
		r.wantLookup("/empty", fuse.OK)
		r.wantLookup("/empty/nothing", fuse.ENOENT)
		r.wantLookup("/d/in/deep", fuse.OK)
		r.wantLookup("/nothing", fuse.ENOENT)
		r.wantNames("/d", "in", "x")
		r.wantNames("/", "a", "d", "empty", "z")
	})
	r.wantNames("/", "a", "d", "empty", "z")
	r.wantNames("/d/in", "deep")

	r = newRig(t, "/a") // by the walk alone
	r.othersDir("/empty")
	r.must(r.s.begin(t.Context()))
	r.must(r.s.walk(t.Context()))
	r.wantNames("/", "a", "empty")
}

// TestLogDirsRenamed: a directory moves in the log with what is in it, over an empty one,
// too.
func TestLogDirsRenamed(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.walk(t.Context()))
	for _, dir := range []string{"/d", "/d/e", "/t", "/full", "/full/x"} {
		r.wantOK(r.mkdir(dir))
	}
	r.wantOK(r.rename("/d", "/n", 0))
	r.wantDirs("/full/", "/full/x/", "/n/", "/n/e/", "/t/")
	r.wantOK(r.rename("/n", "/t", 0))
	r.wantDirs("/full/", "/full/x/", "/t/", "/t/e/")
	r.wantLookup("/t/e", fuse.OK)
	r.wantLookup("/n", fuse.ENOENT)
	if status := r.rename("/t", "/full", 0); status != fuse.Status(syscall.ENOTEMPTY) {
		t.Errorf("renamed over a full one: %v", status)
	}
	r.follow()
	r.wantNames("/", "a", "full", "t")
}

// TestLogDirsUnsure: of a mkdir and an rmdir whose reply is lost, the log says what came.
func TestLogDirsUnsure(t *testing.T) {
	for name, of := range map[string]logfault.Fate{"unheard": logfault.Unheard, "unmade": logfault.Unmade} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "/a")
			r.must(r.s.walk(t.Context()))
			fail := func() { r.log.SetFate(func() logfault.Fate { return of }) }
			fail()
			if status := r.mkdir("/d"); status.Ok() {
				t.Error("mkdir was acknowledged")
			}
			r.log.SetFate(nil)
			r.follow()
			want := fuse.OK
			if of == logfault.Unmade {
				want = fuse.ENOENT
			}
			r.wantLookup("/d", want)
			if of == logfault.Unmade {
				r.wantOK(r.mkdir("/d"))
			}
			fail()
			if status := r.tryRmdir("/d"); status.Ok() {
				t.Error("rmdir was acknowledged")
			}
			r.log.SetFate(nil)
			r.follow()
			want = fuse.ENOENT
			if of == logfault.Unmade {
				want = fuse.OK
			}
			r.wantLookup("/d", want)
			_, err := r.other.Dir(t.Context(), "/d")
			if err != nil && !errors.Is(err, versionlog.ErrNotFound) {
				t.Error(err)
			}
		})
	}
}

// TestRmdirBesideRename: a directory is removed under the name that it has when that is
// committed, though one above it is renamed at the same time.
func TestRmdirBesideRename(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.walk(t.Context()))
	r.wantOK(r.mkdir("/d"))
	r.wantOK(r.mkdir("/d/e"))
	done := make(chan fuse.Status, 1)
	r.log.Next(logfault.BeforeCommit, func() {
		go func() { done <- r.rename("/d", "/n", 0) }()
		time.Sleep(50 * time.Millisecond) // it would be made by then
	})
	r.wantOK(r.tryRmdir("/d/e"))
	r.wantOK(<-done)
	r.follow()
	r.wantDirs("/n/")
	r.wantNames("/n")
}

// TestRenameDirBesideDirs renames a directory while another session makes, removes or
// moves directories below it and below its new name. The tree has the directories that
// the log has, whenever it hears of those.
func TestRenameDirBesideDirs(t *testing.T) {
	for _, beside := range []struct {
		name string
		do   func(r *rig)
		left []string // in the directory
	}{
		{"removed", func(r *rig) { r.othersRmdir("/d/s") }, []string{"f"}},
		{"moved away", func(r *rig) { r.must(errOfOthers(r.other.Rename(r.Context(), "/d/s", "/x", nil))) }, []string{"f"}},
		{"made", func(r *rig) { r.othersDir("/d/new") }, []string{"f", "s"}},
		{"made in the new place", func(r *rig) { r.othersDir("/e/new") }, []string{"f", "new", "s"}},
		{"moved to the new place", func(r *rig) { r.must(errOfOthers(r.other.Rename(r.Context(), "/d/s", "/e/new", nil))) }, []string{"f", "new"}},
	} {
		for _, heard := range []bool{false, true} {
			t.Run(fmt.Sprint(beside.name, heard), func(t *testing.T) {
				r := newRig(t, "/d/f")
				r.othersDir("/d/s")
				r.must(r.s.walk(t.Context()))
				r.log.Next(logfault.BeforeCommit, func() {
					beside.do(r)
					if heard {
						r.follow()
					}
				})
				r.wantOK(r.rename("/d", "/e", 0))
				r.wantNoDifference()
				r.wantNames("/e", beside.left...)
			})
		}
	}
}

func errOfOthers(_ *versionlog.Commit, err error) error { return err }
