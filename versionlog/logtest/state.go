package logtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"mneme/versionlog"
)

var stateTests = map[string]func(*suite){
	"Past":          testPast,
	"Pages":         testPastPages,
	"Newest":        testNewest,
	"NewestContent": testNewestContent,
	"SeqAt":         testSeqAt,
	"NoSuch":        testNoSuchState,
	"StopsEarly":    testPastStopsEarly,
}

func (s *suite) at(storeID string, seq uint64) versionlog.State {
	s.Helper()
	state, err := s.log.At(s.Context(), storeID, seq)
	s.must(err)
	return state
}

// pastHeads are the versions that lived after each commit, as the commits tell, by
// path; those of commit n at n.
func pastHeads(commits []*versionlog.Commit) []map[string]versionlog.Version {
	all := []map[string]versionlog.Version{{}}
	for _, c := range commits {
		heads := maps.Clone(all[len(all)-1])
		for _, v := range c.Versions { // one that was erased does not tell where the memory was
			maps.DeleteFunc(heads, func(_ string, head versionlog.Version) bool { return head.MemoryID == v.MemoryID })
		}
		for _, v := range c.Versions {
			if v.Live() && !v.Redacted() {
				heads[v.Path] = v
			}
		}
		all = append(all, heads)
	}
	return all
}

// checkPast compares the state after every commit of a store with its commits.
func checkPast(ctx context.Context, t fataler, log versionlog.Log, storeID string) {
	t.Helper()
	commits := collect(t, log.Commits(ctx, storeID, 0))
	seen, dirs := map[string]bool{"/never": true}, map[string]bool{"/": true}
	for _, c := range commits {
		for _, v := range c.Versions {
			if v.Redacted() {
				continue
			}
			seen[v.Path] = true
			for dir := path.Dir(v.Path); dir != "/"; dir = path.Dir(dir) {
				dirs[dir] = true
			}
		}
	}
	for seq, want := range pastHeads(commits) {
		state, err := log.At(ctx, storeID, uint64(seq))
		if err != nil {
			t.Fatal(fmt.Sprintf("at %d: %v", seq, err))
		}
		heads := collect(t, state.Heads(ctx, "/", ""))
		if got := paths(heads); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			t.Fatal(fmt.Sprintf("at %d: heads are %q, want %q", seq, got, slices.Sorted(maps.Keys(want))))
		}
		for _, v := range heads {
			if v != want[v.Path] {
				t.Fatal(fmt.Sprintf("at %d: %+v, want %+v", seq, v, want[v.Path]))
			}
		}
		for path := range seen {
			v, err := state.Head(ctx, path)
			if want[path].ID == "" && errors.Is(err, versionlog.ErrNotFound) || err == nil && v == want[path] {
				continue
			}
			t.Fatal(fmt.Sprintf("at %d: head of %s is %+v, %v, want %+v", seq, path, v, err, want[path]))
		}
		for dir := range dirs {
			checkChildren(t, heads, dir, collect(t, state.Children(ctx, dir)))
			below := slices.DeleteFunc(slices.Clone(heads), func(v versionlog.Version) bool {
				return v.Path != dir && !strings.HasPrefix(v.Path, strings.TrimSuffix(dir, "/")+"/")
			})
			if got := collect(t, state.Heads(ctx, dir, "")); !slices.Equal(got, below) {
				t.Fatal(fmt.Sprintf("at %d: heads under %s are %q, want %q", seq, dir, paths(got), paths(below)))
			}
		}
	}
}

// testPast: every state is what the commits up to it say, also of paths that were left
// and taken again, by renames, too, and in one commit.
func testPast(s *suite) {
	s.put("/a", "1")
	s.commit(put("/d/x", "1", anything), put("/d/y", "1", anything), put("/d!", "1", anything), put("/d0", "1", anything))
	s.put("/a", "2")
	s.commit(rename("/a", "/b", anything))
	s.put("/a", "3") // another memory
	s.commit(remove("/a", anything), rename("/b", "/c", anything))
	s.commit(rename("/c", "/a", anything), put("/b", "4", anything))
	s.commit(remove("/d/x", anything), remove("/d/y", anything), put("/e/f/g", "1", anything))
	s.put("/d", "5") // where a directory was
	s.commit(remove("/d", anything))
	s.put("/d/x", "6")
	s.commit(rename("/d/x", "/e/x", anything), rename("/e/f/g", "/d/g", anything))
	s.put("/d/x", "7")
	checkPast(s.Context(), s, s.log, s.store.ID)
	state := s.at(s.store.ID, s.tip().Seq)
	want := collect(s.T, state.Heads(s.Context(), "/", ""))
	s.put("/later", "1")
	s.commit(remove("/d/x", anything))
	s.equal(collect(s.T, state.Heads(s.Context(), "/", "")), want) // it stays
	other := s.addStore("other")
	if found := collect(s.T, s.at(other.ID, 0).Heads(s.Context(), "/", "")); len(found) > 0 {
		s.Errorf("a store without commits holds %q", paths(found))
	}
}

// testPastPages has more paths than a page, most of them dead, or not born.
func testPastPages(s *suite) {
	const n = 300
	var birth, death []versionlog.Change
	for i := range n {
		birth = append(birth, put(fmt.Sprintf("/p/%03d/x", i), "1", anything))
		if i%10 > 0 {
			death = append(death, remove(fmt.Sprintf("/p/%03d/x", i), anything))
		}
	}
	for part := range slices.Chunk(birth, 30) {
		s.commit(part...)
	}
	for part := range slices.Chunk(death, 30) {
		s.commit(part...)
	}
	for seq, want := range map[uint64]int{0: 0, 5: 150, 10: 300, 11: 270, 19: 30} {
		state := s.at(s.store.ID, seq)
		s.equal(len(collect(s.T, state.Heads(s.Context(), "/", ""))), want)
		s.equal(len(collect(s.T, state.Children(s.Context(), "/p"))), want)
	}
}

func testPastStopsEarly(s *suite) {
	s.put("/a", "1")
	s.put("/b", "1")
	state := s.at(s.store.ID, 2)
	for v, err := range state.Heads(s.Context(), "/", "") {
		s.must(err)
		s.equal(v.Path, "/a")
		break
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	s.wantErr(firstError(state.Heads(ctx, "/", "")), context.Canceled)
	s.wantErr(firstError(state.Children(ctx, "/")), context.Canceled)
	_, err := state.Head(ctx, "/a")
	s.wantErr(err, context.Canceled)
}

func testNewest(s *suite) {
	newest := func(want versionlog.Version) {
		s.Helper()
		got, err := s.log.Newest(s.Context(), s.store.ID, want.MemoryID)
		s.must(err)
		s.equal(got, want)
	}
	v := s.put("/a", "1")
	other := s.put("/b", "1")
	newest(v)
	newest(s.commit(rename("/a", "/c", anything))[0])
	newest(s.commit(remove("/c", anything))[0])
	newest(other)
	_, err := s.log.Newest(s.Context(), s.store.ID, "mem_unknown")
	s.wantErr(err, versionlog.ErrNotFound)
}

func testNewestContent(s *suite) {
	read := s.log.Capabilities().NewestContent
	if read == nil {
		return // a log need not be able to
	}
	newest := func(want versionlog.Version, content any) {
		s.Helper()
		got, data, err := read(s.Context(), s.store.ID, want.MemoryID)
		s.must(err)
		s.equal(got, want)
		if text, ok := content.(string); ok != (data != nil) || text != string(data) {
			s.Errorf("%s %s: content %q, want %v", got.Op, got.Path, data, content)
		}
	}
	carried := func(path, content string) versionlog.Version {
		change := put(path, content, anything)
		change.Content = []byte(content)
		return s.commit(change)[0]
	}
	empty, v := carried("/empty", ""), carried("/a", "1")
	newest(v, "1")
	newest(carried("/a", "2"), "2")
	newest(empty, "")
	newest(s.put("/elsewhere", "3"), nil)
	newest(s.commit(rename("/a", "/c", anything))[0], "2")
	newest(s.commit(remove("/c", anything))[0], nil)
	_, _, err := read(s.Context(), s.store.ID, "mem_unknown")
	s.wantErr(err, versionlog.ErrNotFound)
	_, _, err = read(s.Context(), "memstore_unknown", v.MemoryID)
	s.wantErr(err, versionlog.ErrNotFound)
}

func testSeqAt(s *suite) {
	at := func(t time.Time, want uint64) {
		s.Helper()
		got, err := s.log.SeqAt(s.Context(), s.store.ID, t)
		s.must(err)
		s.equal(got, want)
	}
	at(s.clock.now(), 0)
	var times []time.Time
	for i := range 9 {
		times = append(times, s.put("/a", fmt.Sprint(i)).Time)
		if i%3 == 2 { // three are made at the same time
			s.clock.move(time.Minute)
		}
	}
	at(times[0].Add(-time.Microsecond), 0)
	at(times[0], 3)
	at(times[3].Add(-time.Microsecond), 3)
	at(times[3], 6)
	at(times[8].Add(-time.Microsecond), 6)
	at(times[8], 9)
	at(times[8].Add(time.Hour), 9)
}

func testNoSuchState(s *suite) {
	s.put("/a", "1")
	_, err := s.log.At(s.Context(), s.store.ID, 2)
	s.wantErr(err, versionlog.ErrNotFound)
}
