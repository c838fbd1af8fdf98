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

	"mneme/fusefs/tree"
)

// TestWritesWhileLoading: what this mount does to names that have not come yet
// ends as it would if they had.
func TestWritesWhileLoading(t *testing.T) {
	files := []string{"/a", "/b/1", "/b/2/x", "/c", "/d/e", "/m/n", "/m/o/p", "/z"}
	root := func(r *rig) *fuse.InHeader { h := header(r.s.tree.Root().ID()); return &h }
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
				loaded.must(loaded.s.tree.Walk(t.Context()))
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
				if diff := cmp.Diff(shape(loaded.s.tree.Root(), ""), shape(r.s.tree.Root(), "")); diff != "" {
					t.Errorf("the tree is not what it is with everything loaded before (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(loaded.history(), r.history()); diff != "" {
					t.Errorf("the history is not what it is with everything loaded before (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// shape is what a tree looks like to one who does not see ids.
func shape(dir *tree.Entry, path string) map[string]string {
	files := map[string]string{}
	for name, n := range dir.ChildrenLocked() {
		at := path + "/" + name
		if n.IsDir() {
			files[at+"/"] = ""
			for p, v := range shape(n, at) {
				files[p] = v
			}
			continue
		}
		files[at] = fmt.Sprint(n.IsUnloggedLocked(), n.HeadLocked().Seq(), n.HeadLocked().Op(), n.HeadLocked().Digest(), sizeLocked(n))
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

// TestNameThatIsNotThereYet tells the kernel of a name that it was told did not exist, while
// heads load.
func TestNameThatIsNotThereYet(t *testing.T) {
	r := newRig(t, "/a", "/z")
	r.walkTo(0, func() {
		r.wantLookup("/nothing", fuse.ENOENT)
		kernel := r.withKernel()
		root := r.known("/")
		r.write("/nothing/at/all", "x")
		r.follow()
		r.awaitNotices()
		if !kernel.forgot(root, "nothing") {
			t.Error("the kernel is not told of a name that it was told did not exist")
		}
	})
}

// TestLoadAgain: the heads load when the log is back, and .mneme/status says why they have
// not before.
func TestLoadAgain(t *testing.T) {
	r := newRig(t, "/a", "/b/c", "/d/e")
	r.log.SetDown(true)
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
	state("ok\n")
	r.wantAsLog()
}
