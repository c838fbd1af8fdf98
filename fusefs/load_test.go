package fusefs

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
)

// TestLookupWhileLoading: what has not come yet is found, and what is not there
// is known not to be, with few requests.
func TestLookupWhileLoading(t *testing.T) {
	r := newRig(t, "/a", "/d/e/f", "/z")
	r.walkTo(0, func() {
		r.log.ResetReads()
		r.wantLookup("/z", fuse.OK)
		r.wantReads(1)
		r.wantLookup("/d/e/f", fuse.OK)
		r.wantReads(4) // three for the directory, which tell of the file
		for _, path := range []string{"/nothing", "/d/nothing", "/d/e/nothing", "/b"} {
			out := r.wantLookup(path, fuse.ENOENT)
			if out.EntryTimeout() < time.Hour {
				t.Errorf("the kernel keeps for %v that there is no %s", out.EntryTimeout(), path)
			}
		}
		r.wantReads(16)
		r.wantLookup("/nothing", fuse.ENOENT)
		r.wantLookup("/z", fuse.OK)
		r.wantReads(16)
		r.wantLookup("/.mneme/status", fuse.OK)
		if text := string(r.s.statusText()); !strings.Contains(text, "state: loading") {
			t.Errorf("the status is %s", text)
		}
		r.write("/nothing/at/all", "x") // the kernel has to hear of it
		r.s.root.cache.Lookups++
		kernel := r.withKernel()
		r.follow()
		r.awaitNotices()
		if !kernel.forgot(r.s.root.id, "nothing") {
			t.Error("the kernel is not told of a name that it was told did not exist")
		}
		r.wantLookup("/nothing/at/all", fuse.OK)
	})
	r.log.ResetReads()
	r.wantLookup("/never", fuse.ENOENT)
	r.wantReads(0)
	r.wantAsLog()
	if text := string(r.s.statusText()); !strings.Contains(text, "state: ok\n") || !strings.Contains(text, "memories: 4\n") {
		t.Errorf("the status is %s", text)
	}
}

// TestListWhileLoading: a directory is complete however little has come, and
// its subdirectories are not read.
func TestListWhileLoading(t *testing.T) {
	r := newRig(t, "/a!", "/a/b", "/a/c/d", "/a0", "/m/1", "/m/2/x", "/m/2/y", "/m/3", "/m0")
	r.walkTo(1, func() {
		r.wantNames("/m", "1", "2", "3")
		r.wantNames("/", "a", "a!", "a0", "m", "m0")
		r.wantNames("/m/2", "x", "y")
		r.wantNames("/a", "b", "c")
		r.write("/m/4", "x")
		r.remove("/m/1")
		r.follow()
		r.log.ResetReads()
		r.wantNames("/m", "2", "3", "4")
		r.wantReads(0)
	})
	r.wantAsLog()
	r.wantNames("/m", "2", "3", "4")
}

// TestLoadFails: a request that cannot be answered says so, and everything is
// as it should be once the log is back.
func TestLoadFails(t *testing.T) {
	r := newRig(t, "/a", "/b/c", "/d/e")
	r.log.SetDown(true)
	r.wantLookup("/a", fuse.EIO)
	r.wantLookup("/nothing", fuse.EIO)
	if names, status := r.names("/"); status != fuse.EIO {
		t.Errorf("the root holds %q, %v", names, status)
	}
	var out fuse.EntryOut
	root := r.s.root.id
	if status := r.fs.Mkdir(nil, &fuse.MkdirIn{InHeader: header(root)}, "b", &out); status != fuse.EIO {
		t.Errorf("mkdir: %v", status)
	}
	if status := r.save("/a", "x", 0); status != fuse.EIO {
		t.Errorf("create: %v", status)
	}
	in := header(root)
	if status := r.fs.Unlink(nil, &in, "a"); status != fuse.EIO {
		t.Errorf("unlink: %v", status)
	}
	if status := r.fs.Rmdir(nil, &in, "b"); status != fuse.EIO {
		t.Errorf("rmdir: %v", status)
	}
	if status := r.rename("/a", "/x", 0); status != fuse.EIO {
		t.Errorf("rename: %v", status)
	}
	r.inBackground((*store).load)
	state := func(want string) {
		t.Helper()
		for range 3000 {
			if strings.Contains(string(r.s.statusText()), "state: "+want) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("the status is %s, want %s", r.s.statusText(), want)
	}
	state("degraded: the list of memories is not complete yet: the log is down")
	r.log.SetDown(false)
	r.wantLookup("/b/c", fuse.OK)
	state("ok\n")
	r.wantAsLog()
}

// TestChangesWhileLoading: what other sessions do while pages are on their way
// is not undone by what these say.
func TestChangesWhileLoading(t *testing.T) {
	files := []string{"/a", "/b/1", "/b/2", "/c/x", "/d", "/e/f/g"}
	changes := map[string]func(*rig){
		"removed":               func(r *rig) { r.remove("/b/1") },
		"written":               func(r *rig) { r.write("/b/1", "new") },
		"directory gone":        func(r *rig) { r.remove("/b/1"); r.remove("/b/2") },
		"file over directory":   func(r *rig) { r.remove("/c/x"); r.write("/c", "file") },
		"directory over file":   func(r *rig) { r.remove("/d"); r.write("/d/below", "x") },
		"there and back":        func(r *rig) { r.remove("/c/x"); r.write("/c", "file"); r.remove("/c"); r.write("/c/y", "x") },
		"renamed":               func(r *rig) { r.move("/a", "/zz/a") },
		"renamed to the front":  func(r *rig) { r.move("/e/f/g", "/0") },
		"directory renamed":     func(r *rig) { r.move("/b", "/e/b") },
		"renamed and made anew": func(r *rig) { r.move("/b/1", "/q"); r.write("/b/1", "anew") },
	}
	for name, change := range changes {
		for _, touched := range []string{"nothing", "names", "lists"} {
			for page := range len(files)/slowPage + 1 {
				for _, ahead := range []bool{false, true} {
					t.Run(fmt.Sprint(name, "/", touched, "/", page, "/", ahead), func(t *testing.T) {
						r := newRig(t, files...)
						touch := func() {
							switch touched {
							case "names":
								for _, path := range []string{"/a", "/b/1", "/c/x", "/c", "/d", "/e/f/g"} {
									_, _ = r.lookup(path)
								}
							case "lists":
								for _, dir := range []string{"/", "/b", "/c", "/e", "/e/f"} {
									_, _ = r.names(dir)
								}
							}
						}
						r.walkTo(page, func() {
							if !ahead {
								touch()
							}
							change(r)
							if ahead { // the tree hears from the log itself before the follower does
								touch()
							}
							r.follow()
							touch()
							r.awaitTasks()
							r.asLogNow()
						})
						r.wantAsLog()
					})
				}
			}
		}
	}
}

// asLogNow looks everything up, whatever has loaded.
func (r *rig) asLogNow() {
	r.Helper()
	var walk func(dir string, files map[string]string)
	walk = func(dir string, files map[string]string) {
		names, status := r.names(dir)
		if !status.Ok() || dir != "" && len(names) == 0 {
			r.Errorf("%s/ holds %q, %v", dir, names, status)
		}
		for _, name := range names {
			path := dir + "/" + name
			entry := r.wantLookup(path, fuse.OK)
			if entry.Mode&syscall.S_IFMT == syscall.S_IFDIR {
				walk(path, files)
				continue
			}
			buf := make([]byte, 100)
			var open fuse.OpenOut
			r.fs.Open(nil, &fuse.OpenIn{InHeader: header(entry.NodeId)}, &open)
			result, status := r.fs.Read(nil, &fuse.ReadIn{InHeader: header(entry.NodeId), Fh: open.Fh}, buf)
			if !status.Ok() {
				r.Errorf("read %s: %v", path, status)
				continue
			}
			data, _ := result.Bytes(buf)
			files[path] = string(data)
			r.fs.Release(nil, &fuse.ReleaseIn{Fh: open.Fh})
		}
	}
	got, want := map[string]string{}, map[string]string{}
	walk("", got)
	for v, err := range r.other.Heads(r.Context(), "/") {
		r.must(err)
		data, err := r.other.Content(r.Context(), v)
		r.must(err)
		want[v.Path] = string(data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("the mount differs from the log (-log +mount):\n%s", diff)
	}
}

// TestWritesWhileLoading: what this mount does to names that have not come yet
// ends as it would if they had.
func TestWritesWhileLoading(t *testing.T) {
	files := []string{"/a", "/b/1", "/b/2/x", "/c", "/d/e", "/m/n", "/m/o/p", "/z"}
	root := func(r *rig) *fuse.InHeader { h := header(r.s.root.id); return &h }
	for name, test := range map[string]struct {
		do   func(*rig) fuse.Status
		want fuse.Status
	}{
		"create":           {func(r *rig) fuse.Status { return r.save("/new", "x", 0) }, fuse.OK},
		"create below":     {func(r *rig) fuse.Status { return r.save("/m/new", "x", syscall.O_EXCL) }, fuse.OK},
		"create existing":  {func(r *rig) fuse.Status { return r.save("/z", "x", syscall.O_EXCL) }, fuse.Status(syscall.EEXIST)},
		"create directory": {func(r *rig) fuse.Status { return r.save("/m", "x", syscall.O_EXCL) }, fuse.Status(syscall.EISDIR)},
		"overwrite":        {func(r *rig) fuse.Status { return r.save("/z", "new", 0) }, fuse.OK},
		"mkdir":            {func(r *rig) fuse.Status { return r.mkdir("/new") }, fuse.OK},
		"mkdir existing":   {func(r *rig) fuse.Status { return r.mkdir("/m") }, fuse.Status(syscall.EEXIST)},
		"mkdir on file":    {func(r *rig) fuse.Status { return r.mkdir("/z") }, fuse.Status(syscall.EEXIST)},
		"unlink":           {func(r *rig) fuse.Status { return r.fs.Unlink(nil, root(r), "z") }, fuse.OK},
		"unlink directory": {func(r *rig) fuse.Status { return r.fs.Unlink(nil, root(r), "m") }, fuse.Status(syscall.EISDIR)},
		"unlink nothing":   {func(r *rig) fuse.Status { return r.fs.Unlink(nil, root(r), "no") }, fuse.ENOENT},
		"rmdir":            {func(r *rig) fuse.Status { return r.fs.Rmdir(nil, root(r), "b") }, fuse.Status(syscall.ENOTEMPTY)},
		"rmdir file":       {func(r *rig) fuse.Status { return r.fs.Rmdir(nil, root(r), "z") }, fuse.ENOTDIR},
		"rename":           {func(r *rig) fuse.Status { return r.rename("/z", "/y", 0) }, fuse.OK},
		"rename over":      {func(r *rig) fuse.Status { return r.rename("/z", "/c", 0) }, fuse.OK},
		"rename into":      {func(r *rig) fuse.Status { return r.rename("/z", "/m/z", 0) }, fuse.OK},
		"rename no replace": {func(r *rig) fuse.Status { return r.rename("/z", "/c", 1) },
			fuse.Status(syscall.EEXIST)},
		"rename directory":      {func(r *rig) fuse.Status { return r.rename("/b", "/n", 0) }, fuse.OK},
		"rename directory into": {func(r *rig) fuse.Status { return r.rename("/b", "/m/b", 0) }, fuse.OK},
		"rename directory over": {func(r *rig) fuse.Status { return r.rename("/b", "/d", 0) }, fuse.Status(syscall.ENOTEMPTY)},
		"rmdir once emptied of what has come": {func(r *rig) fuse.Status {
			_ = r.unlink("/m/n")
			return r.fs.Rmdir(nil, root(r), "m")
		}, fuse.Status(syscall.ENOTEMPTY)},
		"rename once emptied of what has come": {func(r *rig) fuse.Status {
			_ = r.unlink("/m/n")
			return r.rename("/m", "/n", 0)
		}, fuse.OK},
		"rename over what was emptied of what has come": {func(r *rig) fuse.Status {
			_ = r.unlink("/m/n")
			return r.rename("/b", "/m", 0)
		}, fuse.Status(syscall.ENOTEMPTY)},
		"rename over a directory": {func(r *rig) fuse.Status { return r.rename("/z", "/d", 0) }, fuse.Status(syscall.EISDIR)},
	} {
		for page := range len(files)/slowPage + 1 {
			t.Run(fmt.Sprint(name, "/", page), func(t *testing.T) {
				loaded := newRig(t, files...)
				loaded.must(loaded.s.walk(t.Context()))
				if status := test.do(loaded); status != test.want {
					t.Fatalf("with everything loaded it ends with %v, want %v", status, test.want)
				}
				r := newRig(t, files...)
				r.walkTo(page, func() {
					if status := test.do(r); status != test.want {
						t.Errorf("it ends with %v, want %v", status, test.want)
					}
				})
				r.follow()
				loaded.follow()
				defer r.looking()()
				if diff := cmp.Diff(shape(loaded.s.root, ""), shape(r.s.root, "")); diff != "" {
					t.Errorf("the tree is not what it is with everything loaded before (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(loaded.history(), r.history()); diff != "" {
					t.Errorf("the history is not what it is with everything loaded before (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestNothingOlderReplacesNewer: what a lookup has found ahead of the follower
// keeps its node, whatever older pages and commits say of paths above and below.
func TestNothingOlderReplacesNewer(t *testing.T) {
	for name, test := range map[string]struct {
		before, after string
	}{
		"file over directory": {"/a/b", "/a"},
		"directory over file": {"/a", "/a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, test.before)
			r.walkTo(0, func() {
				r.remove(test.before)
				r.write(test.after, "x")
				r.write(test.after, "y")
			})
			if r.s.find(test.before) == nil {
				t.Fatal("the page is not older than the commits")
			}
			r = newRig(t, test.before)
			var found uint64
			r.walkTo(0, func() {
				r.remove(test.before)
				r.write(test.after, "x")
				r.write(test.after, "y")
				found = r.wantLookup(test.after, fuse.OK).NodeId
			})
			if id := r.wantLookup(test.after, fuse.OK).NodeId; id != found {
				t.Errorf("after the page it is node %d, was %d", id, found)
			}
			r.wantAsLog()
			if id := r.wantLookup(test.after, fuse.OK).NodeId; id != found {
				t.Errorf("after the commits it is node %d, was %d", id, found)
			}
		})
	}
}

// shape is what a tree looks like to one who does not see ids.
func shape(dir *node, path string) map[string]string {
	files := map[string]string{}
	for name, n := range dir.children {
		at := path + "/" + name
		if n.isDir() {
			files[at+"/"] = ""
			for p, v := range shape(n, at) {
				files[p] = v
			}
			continue
		}
		files[at] = fmt.Sprint(n.local, n.head.Seq(), n.head.Op(), n.head.Digest(), n.size())
	}
	return files
}

func (r *rig) history() []string {
	r.Helper()
	var lines []string
	for c, err := range r.other.Commits(r.Context(), 0) {
		r.must(err)
		for _, v := range c.Versions {
			lines = append(lines, fmt.Sprint(v.Seq, v.Op, v.Path, v.From, v.Digest))
		}
	}
	slices.Sort(lines)
	return lines
}

// TestOpenDoesNotWaitForTheWalk: an open for writing needs the tip, no more.
func TestOpenDoesNotWaitForTheWalk(t *testing.T) {
	r := newRig(t, "/a", "/b", "/c", "/d")
	r.s.patience = time.Minute
	r.walkTo(0, func() {
		r.write("/d", "newer")
		done := make(chan fuse.Status, 1)
		go func() { done <- r.save("/d", "mine", 0) }()
		r.follow()
		if status := <-done; !status.Ok() {
			t.Errorf("save: %v", status)
		}
	})
	r.wantAsLog()
}

// TestDirectoryStaysWhileItsRestLoads: that the one file is gone that the tree
// knew of does not mean that the directory is.
func TestDirectoryStaysWhileItsRestLoads(t *testing.T) {
	r := newRig(t, "/d/x", "/d/y")
	r.walkTo(0, func() {
		r.wantLookup("/d/x", fuse.OK)
		before := r.wantLookup("/d", fuse.OK)
		r.remove("/d/x")
		r.follow()
		after := r.wantLookup("/d", fuse.OK)
		if after.NodeId != before.NodeId {
			t.Error("the directory is another one")
		}
		r.wantNames("/d", "y")
		r.remove("/d/y")
		r.follow()
		r.wantLookup("/d", fuse.ENOENT)
	})
	r.wantAsLog()
}

// TestOwnCommitsWhileLoading: what a mount commits while its heads load is no
// other session's, though the walk comes upon it before the reply does.
func TestOwnCommitsWhileLoading(t *testing.T) {
	rig := func(t *testing.T) *rig {
		r := newRig(t, "/a")
		r.log.Next(logfault.AfterCommit, func() { r.must(r.s.walk(r.Context())) })
		return r
	}
	t.Run("write", func(t *testing.T) {
		r := rig(t)
		before := r.wantLookup("/a", fuse.OK)
		fh := r.dirty("/a", "longer")
		if status := r.fs.Fsync(nil, &fuse.FsyncIn{Fh: fh}); !status.Ok() {
			t.Fatal(status)
		}
		r.follow()
		if _, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh}, []byte("longer still")); !status.Ok() {
			t.Fatal(status)
		}
		after := r.wantLookup("/a", fuse.OK)
		if after.NodeId != before.NodeId || after.Size != 12 {
			t.Errorf("the path shows inode %d, which was %d, with %d bytes", after.NodeId, before.NodeId, after.Size)
		}
		if status := r.close(fh); !status.Ok() {
			t.Error(status)
		}
		r.wantAsLog()
	})
	t.Run("create", func(t *testing.T) {
		r := rig(t)
		if status := r.save("/b", "new", syscall.O_EXCL); !status.Ok() {
			t.Fatal(status)
		}
		r.wantLookup("/b", fuse.OK)
		r.wantAsLog()
	})
	t.Run("rename", func(t *testing.T) {
		r := rig(t)
		before := r.wantLookup("/a", fuse.OK)
		if status := r.rename("/a", "/b", 0); !status.Ok() {
			t.Fatal(status)
		}
		r.wantLookup("/a", fuse.ENOENT)
		if after := r.wantLookup("/b", fuse.OK); after.NodeId != before.NodeId {
			t.Errorf("the file has another inode, %d, which was %d", after.NodeId, before.NodeId)
		}
		r.wantAsLog()
	})
}
