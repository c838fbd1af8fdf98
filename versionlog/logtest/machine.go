package logtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/versionlog"

	"pgregory.net/rapid"
)

// runMachine drives a log with random changes and compares it, after each, with
// a plain map. All runs share one log, each has a store of its own.
func runMachine(t *testing.T, cfg Config) {
	log := cfg.Open(t, newClock().now)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		if runs++; cfg.Runs > 0 && runs > cfg.Runs {
			return
		}
		m := &machine{ctx: t.Context(), log: log, store: versionlog.NewStoreID(), heads: map[string]*memory{}, gone: map[string]string{}}
		err := log.CreateStore(t.Context(), versionlog.Store{ID: m.store, Slug: fmt.Sprint("run-", runs)})
		if err != nil {
			rt.Fatal(err)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put":    m.put,
			"remove": m.remove,
			"rename": m.rename,
			"revive": m.revive,
			"move":   m.moveDirectory,
			"mkdir":  m.makeDir,
			"rmdir":  m.removeDir,
			"event":  m.event,
			"redact": m.redactSome,
			"":       m.check,
		})
		m.replay(rt)
	})
}

type machine struct {
	ctx   context.Context // of the test
	log   versionlog.Log
	store string
	heads map[string]*memory // by path
	gone  map[string]string  // id of a deleted memory: id of its deletion
	seq   uint64
}

type memory struct {
	id      string
	version string
	content string
}

// digest is that of the content, zero for a directory.
func (m *memory) digest() (d versionlog.Digest) {
	if m.content != "" {
		d = cas.Sum([]byte(m.content))
	}
	return d
}

var (
	machinePaths    = rapid.SampledFrom([]string{"/a", "/a/b", "/ab", "/d/e", "/d/f", "/d", "/d/e/g"})
	machineDirs     = rapid.SampledFrom([]string{"/d/", "/a/", "/d/e/", "/n/"})
	machineContents = rapid.SampledFrom([]string{"1", "2", "3"})
)

// expectation draws one, and whether it holds for the head of path.
func (m *machine) expectation(t *rapid.T, path string) (versionlog.Expectation, bool) {
	head := m.heads[path]
	switch rapid.IntRange(0, 5).Draw(t, "expect") {
	case 0:
		return versionlog.ExpectAbsent(), head == nil
	case 1:
		return versionlog.ExpectExists(), head != nil
	case 2:
		content := machineContents.Draw(t, "expected content")
		return versionlog.ExpectDigest(cas.Sum([]byte(content))), head != nil && head.content == content
	case 3:
		return versionlog.ExpectVersion("memver_none"), false
	case 4:
		if head != nil {
			return versionlog.ExpectVersion(head.version), true
		}
	}
	return versionlog.ExpectAny(), true
}

// propose commits the changes and makes sure that it ends with the error
// wanted, and with so many versions.
func (m *machine) propose(t *rapid.T, want error, versions int, changes ...versionlog.Change) []versionlog.Version {
	c, err := m.log.Commit(m.ctx, m.store, fresh(changes...))
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
	if err != nil {
		return nil
	}
	if versions > 0 {
		m.seq++
	}
	if c.Seq != m.seq || len(c.Versions) != versions {
		t.Fatalf("commit %d with %d versions, want %d with %d", c.Seq, len(c.Versions), m.seq, versions)
	}
	return c.Versions
}

// blocked reports whether a memory at path would lie above or below another,
// leaving the one at except aside.
func (m *machine) blocked(path, except string) bool {
	for other := range m.heads {
		if other != except && (strings.HasPrefix(other, path+"/") || strings.HasPrefix(path, other+"/")) {
			return true
		}
	}
	return false
}

func (m *machine) put(t *rapid.T) {
	path, content := machinePaths.Draw(t, "path"), machineContents.Draw(t, "content")
	expect, holds := m.expectation(t, path)
	change := put(path, content, expect)
	head := m.heads[path]
	switch {
	case head != nil && head.content == content && expect != versionlog.ExpectAbsent():
		m.propose(t, nil, 0, change)
	case !holds:
		m.propose(t, versionlog.ErrConflict, 0, change)
	case head == nil && m.blocked(path, ""):
		m.propose(t, versionlog.ErrOverlap, 0, change)
	default:
		v := m.propose(t, nil, 1, change)[0]
		if head != nil && (v.MemoryID != head.id || v.Parent != head.version) {
			t.Fatalf("%+v does not follow %+v", v, head)
		}
		m.heads[path] = &memory{id: v.MemoryID, version: v.ID, content: content}
	}
}

func (m *machine) remove(t *rapid.T) {
	path := machinePaths.Draw(t, "path")
	expect, holds := m.expectation(t, path)
	head := m.heads[path]
	if head == nil || !holds {
		m.propose(t, versionlog.ErrConflict, 0, remove(path, expect))
		return
	}
	v := m.propose(t, nil, 1, remove(path, expect))[0]
	delete(m.heads, path)
	m.gone[head.id] = v.ID
}

func (m *machine) rename(t *rapid.T) {
	path := machinePaths.Draw(t, "path")
	to := machinePaths.Filter(func(s string) bool { return s != path }).Draw(t, "to")
	expect, holds := m.expectation(t, path)
	head := m.heads[path]
	switch {
	case head == nil || !holds || m.heads[to] != nil:
		m.propose(t, versionlog.ErrConflict, 0, rename(path, to, expect))
	case m.blocked(to, path):
		m.propose(t, versionlog.ErrOverlap, 0, rename(path, to, expect))
	default:
		m.move(path, to, m.propose(t, nil, 1, rename(path, to, expect))[0])
	}
}

func (m *machine) move(path, to string, v versionlog.Version) {
	head := m.heads[path]
	delete(m.heads, path)
	m.heads[to] = &memory{id: head.id, version: v.ID, content: head.content}
}

func (m *machine) revive(t *rapid.T) {
	path := machinePaths.Draw(t, "path")
	if len(m.gone) == 0 || m.heads[path] != nil {
		return
	}
	id := slices.Sorted(maps.Keys(m.gone))[0]
	change := put(path, "1", versionlog.ExpectAbsent())
	change.MemoryID = id
	if m.blocked(path, "") {
		m.propose(t, versionlog.ErrOverlap, 0, change)
		return
	}
	v := m.propose(t, nil, 1, change)[0]
	if v.MemoryID != id || v.Parent != m.gone[id] {
		t.Fatalf("%+v does not bring %s back", v, id)
	}
	delete(m.gone, id)
	m.heads[path] = &memory{id: id, version: v.ID, content: "1"}
}

// moveDirectory moves all below /d to /moved and back, each time in one commit.
func (m *machine) moveDirectory(t *rapid.T) {
	for _, way := range [][2]string{{"/d/", "/moved/"}, {"/moved/", "/d/"}} {
		var changes []versionlog.Change
		for _, path := range slices.Sorted(maps.Keys(m.heads)) {
			if rest, ok := strings.CutPrefix(path, way[0]); ok {
				changes = append(changes, rename(path, way[1]+rest, versionlog.ExpectVersion(m.heads[path].version)))
			}
		}
		if len(changes) == 0 {
			return
		}
		for i, v := range m.propose(t, nil, len(changes), changes...) {
			m.move(changes[i].Path, changes[i].To, v)
		}
	}
}

// makeDir makes a directory, with and without one in its place.
func (m *machine) makeDir(t *rapid.T) {
	path := machineDirs.Draw(t, "path")
	expect, holds := m.expectation(t, path)
	there := m.heads[path] != nil || len(m.below(path)) > 0
	change := makeDir(path, expect)
	switch {
	case there && expect != versionlog.ExpectAbsent():
		m.propose(t, nil, 0, change)
	case !holds || there:
		m.propose(t, versionlog.ErrConflict, 0, change)
	case m.blocked(path, ""):
		m.propose(t, versionlog.ErrOverlap, 0, change)
	default:
		v := m.propose(t, nil, 1, change)[0]
		m.heads[path] = &memory{id: v.MemoryID, version: v.ID}
	}
}

// removeDir removes a directory that is empty, and tries to where there is none or
// where something is in it.
func (m *machine) removeDir(t *rapid.T) {
	path := machineDirs.Draw(t, "path")
	switch {
	case m.heads[path] == nil:
		m.propose(t, versionlog.ErrConflict, 0, remove(path, anything))
	case len(m.below(path)) > 0:
		m.propose(t, versionlog.ErrOverlap, 0, remove(path, anything))
	default:
		m.propose(t, nil, 1, remove(path, anything))
		delete(m.heads, path)
	}
}

// below returns what is in a directory.
func (m *machine) below(dir string) (paths []string) {
	for path := range m.heads {
		if path != dir && strings.HasPrefix(path, dir) {
			paths = append(paths, path)
		}
	}
	return paths
}

// event changes the store as a whole, and no head.
func (m *machine) event(t *rapid.T) {
	text := versionlog.NewKey()
	c, err := m.log.Commit(m.ctx, m.store, event(versionlog.StoreUpdated(versionlog.StoreUpdate{Description: &text})))
	if err != nil {
		t.Fatal(err)
	}
	if m.seq++; c.Seq != m.seq {
		t.Fatalf("the event is commit %d, want %d", c.Seq, m.seq)
	}
}

// check compares the log with the map.
func (m *machine) check(t *rapid.T) {
	var want, got []string
	for path, head := range m.heads {
		want = append(want, path+" "+head.version+" "+head.digest().String())
	}
	slices.Sort(want)
	heads := collect(t, m.log.Heads(m.ctx, m.store, "/", ""))
	for _, v := range heads {
		got = append(got, v.Path+" "+v.ID+" "+v.Digest.String())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("heads are %q, want %q", got, want)
	}
	for _, dir := range []string{"/", "/a", "/d", "/d/e"} {
		checkChildren(t, heads, dir, collect(t, m.log.Children(m.ctx, m.store, dir)))
	}
	tip, err := m.log.Tip(m.ctx, m.store)
	if err != nil || tip.Seq != m.seq {
		t.Fatalf("tip is %+v, %v, want sequence %d", tip, err, m.seq)
	}
	if len(heads) == 0 {
		return
	}
	v := rapid.SampledFrom(heads).Draw(t, "head")
	if newest := collect(t, m.log.History(m.ctx, m.store, v.MemoryID, 0))[0]; newest != v {
		t.Fatalf("the history of %s ends with %+v, its head is %+v", v.Path, newest, v)
	}
}

// replay makes sure that the commits lead to the heads.
func (m *machine) replay(t *rapid.T) {
	live, where := map[string]string{}, map[string]string{} // versions by path, paths by memory
	for i, c := range collect(t, m.log.Commits(m.ctx, m.store, 0)) {
		if c.Seq != uint64(i+1) {
			t.Fatalf("commit %d stands in place of %d", c.Seq, i+1)
		}
		for _, v := range c.Versions { // all that leaves, leaves before anything comes
			delete(live, where[v.MemoryID])
			delete(where, v.MemoryID)
		}
		for _, v := range c.Versions {
			if v.Live() && !v.Redacted() {
				live[v.Path], where[v.MemoryID] = v.ID, v.Path
			}
		}
	}
	m.replayPaths(t)
	m.rehearse(t)
	checkPast(m.ctx, t, m.log, m.store)
	want := map[string]string{}
	for path, head := range m.heads {
		want[path] = head.version
	}
	if !maps.Equal(live, want) {
		t.Fatalf("the commits lead to %v, want %v", live, want)
	}
}

// rehearse takes in the history, of which versions may be erased.
func (m *machine) rehearse(t *rapid.T) {
	store, err := m.log.Store(m.ctx, m.store)
	if err != nil {
		t.Fatal(err)
	}
	var r *versionlog.Rehearsal
	for _, c := range collect(t, m.log.Commits(m.ctx, m.store, 0)) {
		if r == nil {
			r = versionlog.NewRehearsal(store.Before(c))
		}
		if err := r.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	for path, head := range m.heads {
		if v, err := r.Head(path); err != nil || v == nil || v.ID != head.version {
			t.Fatalf("the rehearsal has %v at %s, %v; want version %s", v, path, err, head.version)
		}
	}
}

// replayPaths makes sure that the history of each path is what the commits say of it.
func (m *machine) replayPaths(t *rapid.T) {
	want := map[string][]versionlog.Version{}
	for _, c := range slices.Backward(collect(t, m.log.Commits(m.ctx, m.store, 0))) {
		for _, v := range c.Versions {
			if v.Redacted() {
				continue
			}
			want[v.Path] = append(want[v.Path], v)
			if v.From != "" {
				want[v.From] = append(want[v.From], v)
			}
		}
	}
	for path, versions := range want {
		if got := collect(t, m.log.PathHistory(m.ctx, m.store, path)); !slices.Equal(got, versions) {
			t.Fatalf("the history of %s is %v, want %v", path, got, versions)
		}
	}
}
