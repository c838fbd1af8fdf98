package use

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mneme/tests/harness"
)

// A mount is a file system like any other: whatever a program does, and in whatever order, every
// call ends as it would elsewhere, and the tree is what a plain model of one says. A closed file
// is in the store, also after the mount was ended and made again.
func TestModel(t *testing.T) {
	e := harness.NewEnv(t)
	set := func(name string, value any) {
		if err := flag.Set(name, fmt.Sprint(value)); err != nil {
			t.Fatal(err)
		}
	}
	set("rapid.checks", harness.Times(30, 1000))
	set("rapid.steps", harness.Times(60, 500))
	if !harness.Torture() {
		set("rapid.seed", 1) // the same every time
	}
	run := &modelRun{env: e, t: t, done: map[string]int{}, refused: map[string]int{}}
	run.remount()
	rapid.Check(t, run.check)
	e.Settled(t, "notes", run.mount)
	t.Logf("%d runs; done %v, refused %v", run.n, run.done, run.refused)
	for _, op := range []string{"put", "append", "patch", "truncate", "rename", "unlink", "rmdir", "mkdir1", "open", "write at", "close", "remount"} {
		if run.done[op] == 0 {
			t.Errorf("%s was never done", op)
		}
	}
}

// modelRun is a mount, and beside it the model of one directory in it, which
// every run of rapid has to itself.
type modelRun struct {
	env   *harness.Env
	t     *testing.T
	mount *harness.Mount
	agent *harness.Agent
	n     int // of runs

	done, refused map[string]int // by operation

	dir  string // of this run, in the store
	root *modelNode
	open map[string]*modelNode
}

// check is one run.
func (r *modelRun) check(rt *rapid.T) {
	r.n++
	r.dir = fmt.Sprintf("run-%d", r.n)
	r.root, r.open = newModelDir(), map[string]*modelNode{}
	r.agent.Must(r.t, harness.Call{Op: "mkdir1", Path: r.dir})
	defer func() { // also when it failed: the next run has another directory
		for _, name := range slices.Sorted(maps.Keys(r.open)) {
			r.agent.Do(r.t, harness.Call{Op: "close", To: name})
		}
	}()
	rt.Repeat(map[string]func(*rapid.T){
		"step": func(rt *rapid.T) {
			switch n := rapid.IntRange(0, 999).Draw(rt, "what"); { // small numbers come more often
			case n < 50:
				r.step(rt, r.drawCall(rt))
			case n < 950:
				r.step(rt, r.drawOpen(rt))
			default:
				r.endMount(rt)
			}
		},
		"": r.compareTree,
	})
	r.closeAll(rt)
	r.compareTree(rt)
	r.compareStore(rt)
}

// remount ends the mount, if there is one, and makes it again: every other time flat.
func (r *modelRun) remount() {
	var args []string
	if r.mount != nil {
		r.agent.End(r.t)
		r.mount.Stop(r.t)
		args = append(args, "--at="+r.mount.At)
		if r.mount.Dir != r.mount.At { // each second one shows the store as a whole
			args = append(args, "--flat")
		}
	}
	r.mount = r.env.Mount(r.t, append([]string{"notes"}, args...)...)
	r.agent = r.mount.Agent(r.t)
}

// endMount closes everything and makes the mount again, which shows what there was.
func (r *modelRun) endMount(rt *rapid.T) {
	r.closeAll(rt)
	r.compareStore(rt)
	r.remount()
	r.compareTree(rt)
	r.done["remount"]++
}

func (r *modelRun) closeAll(rt *rapid.T) {
	for _, name := range slices.Sorted(maps.Keys(r.open)) {
		r.step(rt, harness.Call{Op: "close", To: name})
	}
}

// step does something in the mount and in the model.
func (r *modelRun) step(rt *rapid.T, c harness.Call) {
	want := r.apply(c)
	asked := c
	if c.Path != "" {
		asked.Path = r.dir + c.Path
	}
	if c.Op == "rename" {
		asked.To = r.dir + c.To
	}
	got := r.agent.Do(r.t, asked)
	if got.Errno != want {
		rt.Fatalf("%v at %d: %v, want %v", c, c.N, got.Errno, want)
	}
	if c.Op == "read all" && got.Text != string(r.open[c.To].data) {
		rt.Fatalf("%v: %q, want %q", c, got.Text, r.open[c.To].data)
	}
	if want == 0 {
		r.done[c.Op]++
	} else {
		r.refused[c.Op]++
	}
	if c.Op == "close" {
		delete(r.open, c.To)
	}
}

func (r *modelRun) compareTree(rt *rapid.T) {
	got := r.agent.Do(r.t, harness.Call{Op: "tree", Path: r.dir})
	tree := map[string]string{}
	if err := json.Unmarshal([]byte(got.Text), &tree); err != nil || !got.OK() {
		rt.Fatalf("read the tree: %v, %v", got.Errno, err)
	}
	if diff := cmp.Diff(r.root.tree(), tree); diff != "" {
		rt.Fatalf("the mount is not what the model says (-model +mount):\n%s", diff)
	}
}

// compareStore looks at what the log has, once everything is closed.
func (r *modelRun) compareStore(rt *rapid.T) {
	want := map[string]string{}
	for path, content := range r.root.tree() {
		if !strings.HasSuffix(path, "/") {
			want["/"+r.dir+path] = harness.SumOf(content)
		}
	}
	got := r.env.Listing(r.t, "notes")
	maps.DeleteFunc(got, func(path, _ string) bool { return !strings.HasPrefix(path, "/"+r.dir+"/") })
	if diff := cmp.Diff(want, got); diff != "" {
		rt.Fatalf("the store is not what the model says (-model +store):\n%s", diff)
	}
}

var (
	modelNames   = []string{"/a", "/b", "/c"}
	modelLengths = []int{0, 1, 12, 3000}
)

// drawPath makes up a path, half of the time one that is there.
func (r *modelRun) drawPath(rt *rapid.T) string {
	there := slices.Sorted(maps.Keys(r.root.tree()))
	if len(there) > 0 && rapid.Bool().Draw(rt, "there") {
		return strings.TrimSuffix(rapid.SampledFrom(there).Draw(rt, "path"), "/")
	}
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(modelNames), 1, 3).Draw(rt, "path"), "")
}

func drawText(rt *rapid.T) string {
	text := fmt.Sprintf("%d ", rapid.IntRange(100, 999).Draw(rt, "text"))
	length := rapid.SampledFrom(modelLengths).Draw(rt, "length")
	return strings.Repeat(text, 1+length/len(text))[:length]
}

func (r *modelRun) drawCall(rt *rapid.T) harness.Call {
	c := harness.Call{Path: r.drawPath(rt)}
	c.Op = rapid.SampledFrom([]string{ // the first more often than the last
		"mkdir1", "rename", "put", "rmdir", "unlink", "patch", "append", "truncate", "replace", "excl", "rename", "mkdir1", "put",
	}).Draw(rt, "op")
	switch c.Op {
	case "put", "replace", "excl", "append":
		c.Text = drawText(rt)
	case "patch":
		c.Text, c.N = drawText(rt), rapid.Int64Range(0, 4000).Draw(rt, "offset")
	case "truncate":
		c.N = rapid.Int64Range(0, 4000).Draw(rt, "size")
	case "rename":
		c.To = r.drawPath(rt)
	}
	return c
}

// drawOpen makes up a call on an open file, or one that opens one.
func (r *modelRun) drawOpen(rt *rapid.T) harness.Call {
	name := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "file")
	if r.open[name] == nil {
		return harness.Call{Op: "open", Path: r.drawPath(rt), To: name}
	}
	c := harness.Call{Op: rapid.SampledFrom([]string{"write at", "write at", "read all", "cut", "sync", "close"}).Draw(rt, "op"), To: name}
	switch c.Op {
	case "write at":
		c.Text, c.N = drawText(rt), rapid.Int64Range(0, 4000).Draw(rt, "offset")
	case "cut":
		c.N = rapid.Int64Range(0, 4000).Draw(rt, "size")
	}
	return c
}

// modelNode is a file or directory of the model.
type modelNode struct {
	kids map[string]*modelNode // nil: a file
	data []byte
}

func newModelDir() *modelNode { return &modelNode{kids: map[string]*modelNode{}} }

func (n *modelNode) dir() bool { return n.kids != nil }

// tree returns what is below n as readTree does.
func (n *modelNode) tree() map[string]string {
	tree := map[string]string{}
	for name, kid := range n.kids {
		if !kid.dir() {
			tree["/"+name] = string(kid.data)
			continue
		}
		tree["/"+name+"/"] = ""
		for path, content := range kid.tree() {
			tree["/"+name+path] = content
		}
	}
	return tree
}

// holds reports whether kid is n or below it.
func (n *modelNode) holds(kid *modelNode) bool {
	if n == kid {
		return true
	}
	for _, k := range n.kids {
		if k.holds(kid) {
			return true
		}
	}
	return false
}

// find returns the directory a path is in, its last name, and what is there.
func (r *modelRun) find(path string) (in *modelNode, name string, at *modelNode, errno syscall.Errno) {
	names := strings.Split(path, "/")[1:]
	in = r.root
	for _, dir := range names[:len(names)-1] {
		next := in.kids[dir]
		if next == nil {
			return nil, "", nil, syscall.ENOENT
		}
		if !next.dir() {
			return nil, "", nil, syscall.ENOTDIR
		}
		in = next
	}
	name = names[len(names)-1]
	return in, name, in.kids[name], 0
}
