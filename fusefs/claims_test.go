package fusefs

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
	"mneme/session"
)

// request is one that a test makes, beside another.
type request struct {
	name string
	do   func(r *rig) fuse.Status
}

func closing(path string) func(r *rig) fuse.Status {
	return func(r *rig) fuse.Status { return r.save(path, "mine", 0) }
}

func renaming(from, to string) func(r *rig) fuse.Status {
	return func(r *rig) fuse.Status { return r.rename(from, to, 0) }
}

func unlinking(path string) func(r *rig) fuse.Status {
	return func(r *rig) fuse.Status {
		dir, name := r.parent(path)
		in := header(dir)
		return r.fs.Unlink(nil, &in, name)
	}
}

func makingDir(path string) func(r *rig) fuse.Status {
	return func(r *rig) fuse.Status {
		dir, name := r.parent(path)
		return r.fs.Mkdir(nil, &fuse.MkdirIn{InHeader: header(dir), Mode: 0o755}, name, &fuse.EntryOut{})
	}
}

func removingDir(path string) func(r *rig) fuse.Status {
	return func(r *rig) fuse.Status {
		dir, name := r.parent(path)
		in := header(dir)
		return r.fs.Rmdir(nil, &in, name)
	}
}

// holdCommit makes a request in the background, whose commit does not come to the log
// before go is called. go returns the request's status.
func (r *rig) holdCommit(do func(r *rig) fuse.Status) (let func() fuse.Status) {
	r.Helper()
	hold, ended := r.log.Hold(logfault.BeforeCommit), make(chan fuse.Status, 1)
	go func() { ended <- do(r) }()
	select {
	case <-hold.Reached():
	case status := <-ended:
		r.Fatalf("ended without a commit: %v", status)
	}
	return func() fuse.Status {
		hold.Release()
		return <-ended
	}
}

// TestCloseBesideSlowRename has the log take its time with one request. Those about
// other paths end meanwhile.
func TestCloseBesideSlowRename(t *testing.T) {
	requests := func(n string) []request {
		return []request{
			{"close", closing("/f" + n)},
			{"close below", closing("/d" + n + "/s/f")},
			{"rename", renaming("/g"+n, "/h"+n)},
			{"rename over", renaming("/g"+n, "/f"+n)},
			{"rename of a directory", renaming("/d"+n, "/e"+n)},
			{"unlink", unlinking("/g" + n)},
			{"mkdir", makingDir("/d" + n + "/new")},
			{"rmdir", removingDir("/d" + n + "/empty")},
		}
	}
	beside := requests("2")
	for i, slow := range requests("1") {
		t.Run(slow.name, func(t *testing.T) {
			r := newRig(t, "/f1", "/g1", "/d1/s/f", "/f2", "/g2", "/d2/s/f")
			r.must(r.s.tree.Walk(t.Context()))
			for _, dir := range []string{"/d1/empty", "/d2/empty"} {
				if status := makingDir(dir)(r); !status.Ok() {
					t.Fatal(status)
				}
			}
			r.follow()
			let := r.holdCommit(slow.do)
			for _, n := range []int{0, 3 + i%5} { // a close, and one of the others
				ended := make(chan fuse.Status)
				go func() { ended <- beside[n].do(r) }()
				select {
				case status := <-ended:
					if !status.Ok() {
						t.Errorf("%s: %v", beside[n].name, status)
					}
				case <-time.After(20 * time.Second):
					t.Fatalf("%s waits for the %s of another path", beside[n].name, slow.name)
				}
			}
			if status := let(); !status.Ok() {
				t.Errorf("%s: %v", slow.name, status)
			}
			r.wantNoDifference()
		})
	}
}

// TestRenameDirExcludesBelow makes the log take its time with the rename of a directory. Requests
// that change something at or below either of its names come after it, and find its result.
func TestRenameDirExcludesBelow(t *testing.T) {
	for _, late := range []struct {
		request
		want fuse.Status
		then string // what the log has afterwards
	}{
		{request{"close", nil}, fuse.OK, "/e/f=mine /e/g /e/s/f /x"},
		{request{"close deep below", nil}, fuse.OK, "/e/f /e/g /e/s/f=mine/f /x"},
		{request{"unlink", unlinking("/d/g")}, fuse.OK, "/e/f /e/s/f /x"},
		{request{"rename out", renaming("/d/g", "/y")}, fuse.OK, "/e/f /e/s/f /x /y"},
		{request{"rename in", renaming("/x", "/d/y")}, fuse.OK, "/e/f /e/g /e/s/f /e/y"},
		{request{"rename of a directory below", renaming("/d/s", "/t")}, fuse.OK, "/e/f /e/g /t/f /x"},
		{request{"mkdir", makingDir("/d/new")}, fuse.OK, "/e/f /e/g /e/new/ /e/s/f /x"},
		{request{"mkdir at the new name", makingDir("/e")}, fuse.Status(syscall.EEXIST), "/e/f /e/g /e/s/f /x"},
		{request{"rename to the new name", renaming("/x", "/e")}, fuse.Status(syscall.EISDIR), "/e/f /e/g /e/s/f /x"},
	} {
		t.Run(late.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "/d/f", "/d/g", "/d/s/f", "/x")
				r.must(r.s.tree.Walk(t.Context()))
				do := late.do
				if path, ok := map[string]string{"close": "/d/f", "close deep below": "/d/s/f"}[late.name]; ok {
					fh := r.dirty(path, "mine")
					do = func(*rig) fuse.Status { return r.close(fh) }
				}
				let := r.holdCommit(renaming("/d", "/e"))
				ended := make(chan fuse.Status, 1)
				go func() { ended <- do(r) }()
				synctest.Wait()
				select {
				case status := <-ended:
					t.Fatalf("not excluded by the rename: %v", status)
				default:
				}
				if status := let(); !status.Ok() {
					t.Errorf("rename: %v", status)
				}
				if status := <-ended; status != late.want {
					t.Errorf("%v, want %v", status, late.want)
				}
				if got := r.contents(); got != late.then {
					t.Errorf("the log has\n%s, want\n%s", got, late.then)
				}
				r.wantNoDifference()
			})
		})
	}
}

// contents is what the log has: the paths of directories that it has itself, and of memories, with the texts that are not where they were at
// first.
func (r *rig) contents() string {
	r.Helper()
	var there []string
	for v, err := range r.other.Tree(r.Context(), "/") {
		r.must(err)
		if v.IsDir() {
			there = append(there, v.Path)
			continue
		}
		data, err := r.other.Content(r.Context(), v)
		r.must(err)
		if text := string(data); !strings.HasPrefix(text, "/") {
			there = append(there, v.Path+"="+text)
		} else {
			there = append(there, v.Path)
		}
	}
	return strings.Join(there, " ")
}

// wantNoDifference is wantAsLog with directories.
func (r *rig) wantNoDifference() {
	r.Helper()
	r.follow()
	if wrong := r.differs(); wrong != "" {
		r.Error(wrong)
	}
	if !r.claims().Idle() {
		r.Error("something is claimed at the end")
	}
}

// TestClaimsFollowTheName moves a file while its close waits: what is claimed is the
// name that it has when the close goes on, and it is committed there.
func TestClaimsFollowTheName(t *testing.T) {
	theirs := func(r *rig) fuse.Status {
		_, err := r.other.Rename(r.Context(), "/a", "/b", nil)
		r.must(err)
		r.follow()
		return fuse.OK
	}
	for _, moved := range []struct {
		by     string
		before bool // it waits, too, and comes before the close
		do     func(r *rig) fuse.Status
	}{
		{"this mount", true, renaming("/a", "/b")},
		{"another session", false, theirs},
	} {
		t.Run(moved.by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "/a")
				r.must(r.s.tree.Walk(t.Context()))
				fh := r.dirty("/a", "mine")
				release := r.claim("/a")
				statuses := make(chan fuse.Status, 2)
				inOrder := []func(r *rig) fuse.Status{moved.do, func(r *rig) fuse.Status { return r.close(fh) }}
				if !moved.before {
					slices.Reverse(inOrder)
				}
				for _, do := range inOrder {
					go func() { statuses <- do(r) }()
					synctest.Wait()
				}
				var claimed string // of the newest commit
				r.log.Each(logfault.BeforeCommit, func() { claimed = r.claimed("/a", "/b") })
				release()
				if one, two := <-statuses, <-statuses; !one.Ok() || !two.Ok() {
					t.Errorf("rename and close: %v, %v", one, two)
				}
				if claimed != "/b" {
					t.Errorf("claimed %q, want /b", claimed)
				}
				if got := r.contents(); got != "/b=mine" {
					t.Errorf("the log has %s, want /b=mine", got)
				}
				r.wantNoDifference()
			})
		})
	}
}

func (r *rig) claim(path string) (release func()) {
	r.Helper()
	release, err := r.claims().Take(r.Context(), func() []session.Claim { return []session.Claim{{Path: path}} })
	r.must(err)
	return release
}

// claimed returns those of some paths that are claimed.
func (r *rig) claimed(paths ...string) string {
	ended, cancel := context.WithCancel(r.Context())
	cancel()
	return strings.Join(slices.DeleteFunc(paths, func(path string) bool {
		release, err := r.claims().Take(ended, func() []session.Claim { return []session.Claim{{Path: path}} })
		if err == nil {
			release()
		}
		return err == nil
	}), " ")
}

// TestClaimsFollowTheRetry moves a file between the tries to commit what was appended to
// it: the second claims the new name, and the old one no more.
func TestClaimsFollowTheRetry(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.tree.Walk(t.Context()))
	fh := r.appended("/a", "mine")
	var claimed []string
	r.log.Each(logfault.BeforeCommit, func() { claimed = append(claimed, r.claimed("/a", "/b")) })
	r.log.Next(logfault.BeforeCommit, func() {
		_, err := r.other.Rename(r.Context(), "/a", "/b", nil)
		r.must(err)
		r.follow()
	})
	if status := r.close(fh); !status.Ok() {
		t.Errorf("close: %v", status)
	}
	if want := []string{"/a", "/b"}; !slices.Equal(claimed, want) {
		t.Errorf("claimed %q, want %q", claimed, want)
	}
	r.wantText("/b", "/amine")
	r.wantNoDifference()
}

// TestClaimsOfHidden has the log take its time with the removal of a file that this
// mount shows under a backup's name. The path at which the log has it is claimed, too.
func TestClaimsOfHidden(t *testing.T) {
	r := newRig(t, "/a", "/b")
	r.must(r.s.tree.Walk(t.Context()))
	if status := r.rename("/a", "/a~", 0); !status.Ok() {
		t.Fatal(status)
	}
	var claimed string
	r.log.Each(logfault.BeforeCommit, func() { claimed = r.claimed("/a", "/a~", "/b") })
	if status := unlinking("/a~")(r); !status.Ok() {
		t.Errorf("unlink: %v", status)
	}
	if want := "/a /a~"; claimed != want {
		t.Errorf("claimed %q, want %q", claimed, want)
	}
	r.wantNoDifference()
}

// TestClaimsOfLostReply commits a file whose name another session has changed since a
// commit under the old one, whose reply was lost: both names are claimed.
func TestClaimsOfLostReply(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.tree.Walk(t.Context()))
	fh := r.dirty("/a", "mine")
	var claimed []string
	r.log.SetFates(logfault.Unmade)
	r.log.Each(logfault.BeforeCommit, func() { claimed = append(claimed, r.claimed("/a", "/b")) })
	if status := r.fs.Fsync(nil, &fuse.FsyncIn{Fh: fh}); status.Ok() {
		t.Fatal("a commit that fails is acknowledged")
	}
	_, err := r.other.Rename(t.Context(), "/a", "/b", nil)
	r.must(err)
	r.follow()
	if status := r.close(fh); !status.Ok() {
		t.Errorf("close: %v", status)
	}
	if want := []string{"/a", "/a /b", "/a /b"}; !slices.Equal(claimed, want) {
		t.Errorf("claimed %q, want %q", claimed, want)
	}
	r.wantNoDifference()
}

// TestClaimsOfHiddenDir makes a file under the name of a directory that hides a memory,
// which the log therefore removes. All below the name is claimed.
func TestClaimsOfHiddenDir(t *testing.T) {
	r := newRig(t, "/d/a")
	r.must(r.s.tree.Walk(t.Context()))
	for _, status := range []fuse.Status{r.rename("/d/a", "/a~", 0), removingDir("/d")(r)} {
		if !status.Ok() {
			t.Fatal(status)
		}
	}
	var claimed []string
	r.log.Each(logfault.BeforeCommit, func() { claimed = append(claimed, r.claimed("/d", "/d/a", "/e")) })
	if status := r.save("/d", "mine", 0); !status.Ok() {
		t.Errorf("save: %v", status)
	}
	if want := []string{"/d /d/a", "/d"}; !slices.Equal(claimed, want) {
		t.Errorf("claimed %q, want %q", claimed, want)
	}
	r.wantNoDifference()
}

// TestSavesInTurn has what is kept of a file, and what is committed of it, wait for one
// another, also where it has no name that could be claimed.
func TestSavesInTurn(t *testing.T) {
	for name, refused := range map[string]bool{"close": false, "refused write": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "/a")
				r.must(r.s.tree.Walk(t.Context()))
				fh := r.dirty("/a", "mine")
				if refused {
					r.write("/a", "theirs")
					r.follow()
				}
				end, err := ownInode(r.handle(fh).node).turn.Take(t.Context())
				r.must(err)
				ended := make(chan fuse.Status, 1)
				go func() {
					if refused {
						_, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh}, []byte("more"))
						ended <- status
						return
					}
					ended <- r.close(fh)
				}()
				synctest.Wait()
				select {
				case status := <-ended:
					t.Errorf("out of turn: %v", status)
					return
				default:
				}
				end()
				if status := <-ended; status.Ok() == refused {
					t.Errorf("%v", status)
				}
			})
		})
	}
}
