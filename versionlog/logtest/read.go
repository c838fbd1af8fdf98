package logtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mneme/versionlog"
)

var readTests = map[string]func(*suite){
	"Empty":       testEmpty,
	"Tip":         testTip,
	"KnownTip":    testKnownTip,
	"Last":        testLast,
	"Held":        testHeld,
	"Heads":       testHeads,
	"HeadsPages":  testHeadsPages,
	"Version":     testVersion,
	"History":     testHistory,
	"PathHistory": testPathHistory,
	"Commits":     testCommits,
	"Resumes":     testResumes,
	"Filter":      testFilter,
	"StopsEarly":  testStopsEarly,
	"SlowWalk":    testSlowWalk,
}

func testEmpty(s *suite) {
	s.equal(s.tip(), versionlog.Tip{})
	s.equal(len(s.heads("/"))+len(s.commits(0))+len(s.history("mem_unknown")), 0)
	_, err := s.log.Head(s.Context(), s.store.ID, "/a")
	s.wantErr(err, versionlog.ErrNotFound)
	_, err = s.log.Last(s.Context(), s.store.ID, "/a")
	s.wantErr(err, versionlog.ErrNotFound)
}

func testTip(s *suite) {
	for i := range 3 {
		c, err := s.try(put("/a", fmt.Sprint(i), anything))
		s.must(err)
		totals := versionlog.Totals{Bytes: int64(i + 1), Memories: 1, InHour: int64(i + 1)}
		s.equal(s.tip(), versionlog.Tip{Seq: uint64(i + 1), Digest: c.Digest, Time: c.Time, Totals: totals})
	}
}

func testLast(s *suite) {
	last := func(path string, want versionlog.Version) {
		s.Helper()
		got, err := s.log.Last(s.Context(), s.store.ID, path)
		s.must(err)
		s.equal(got, want)
	}
	last("/a", s.put("/a", "1"))
	moved := s.commit(rename("/a", "/b", anything))[0]
	last("/a", moved)
	last("/b", moved)
	gone := s.commit(remove("/b", anything))[0]
	last("/b", gone)
	last("/a", moved)
	last("/a", s.put("/a", "2"))
	_, err := s.log.Last(s.Context(), s.store.ID, "/c")
	s.wantErr(err, versionlog.ErrNotFound)
}

// testHeld: a directory that no commit made is known by its contents, until they are erased.
func testHeld(s *suite) {
	held := func(want bool, paths ...string) {
		s.Helper()
		for _, path := range paths {
			got, err := s.log.Held(s.Context(), s.store.ID, path)
			s.must(err)
			if got != want {
				s.Errorf("%s: %v, want %v", path, got, want)
			}
		}
	}
	v := s.put("/d/e/f", "1")
	s.put("/d/e!", "2")
	s.commit(makeDir("/made/", anything))
	held(true, "/d", "/d/e")
	held(false, "/d/e/f", "/d/e!", "/e", "/x", "/made", "/mad")
	s.commit(rename("/d/e/f", "/d/g", anything), remove("/d/e!", anything), remove("/made/", anything))
	held(true, "/d", "/d/e")
	held(false, "/d/e!", "/d/g", "/x", "/made")
	moved, err := s.log.Head(s.Context(), s.store.ID, "/d/g")
	s.must(err)
	s.commit(remove("/d/g", anything))
	held(true, "/d", "/d/e")
	if s.log.Capabilities().Purge != nil {
		s.redact(v.ID, moved.ID)
		held(true, "/d") // its deletion was there
		held(false, "/d/e")
	}
	_, err = s.log.Held(s.Context(), "memstore_none", "/d")
	s.wantErr(err, versionlog.ErrNotFound)
}

func testHeads(s *suite) {
	all := []string{"/Z", "/a!", "/a", "/ab", "/b/c/d", "/b/c!", "/b/e", "/\u00e9", "/\uffee", "/\U0001F600"}
	for _, path := range all {
		s.put(path, path)
	}
	s.put("/gone", "1")
	s.commit(remove("/gone", anything))
	s.put("/b/moved", "1")
	s.commit(rename("/b/moved", "/moved", anything))
	all = append(all, "/moved")
	slices.Sort(all) // byte order
	s.equal(paths(s.heads("/")), all)
	for prefix, want := range map[string][]string{
		"/a": {"/a"}, "/b": {"/b/c!", "/b/c/d", "/b/e"}, "/b/c": {"/b/c/d"}, "/b/c/d": {"/b/c/d"},
		"/gone": nil, "/nothing": nil, "/b/moved": nil, "/moved": {"/moved"},
	} {
		s.equal(paths(s.heads(prefix)), want)
	}
	for _, v := range s.heads("/") {
		s.equal(v, s.head(v.Path))
	}
}

func testHeadsPages(s *suite) {
	const files, perCommit = 1120, 70 // more than a page of any backend, few enough for one commit
	var want []string
	for from := 0; from < files; from += perCommit {
		var changes []versionlog.Change
		for i := from; i < from+perCommit; i++ {
			path := fmt.Sprintf("/d/%05d", i)
			want = append(want, path)
			changes = append(changes, put(path, "1", anything))
		}
		s.commit(changes...)
	}
	s.equal(paths(s.heads("/")), want)
	s.equal(paths(s.heads("/d")), want)
	_, err := s.try(put("/d", "1", anything))
	s.wantErr(err, versionlog.ErrOverlap)
}

func testVersion(s *suite) {
	first := s.put("/a", "1")
	second := s.commit(rename("/a", "/b", anything))[0]
	third := s.commit(remove("/b", anything))[0]
	for _, want := range []versionlog.Version{first, second, third} {
		got, err := s.log.Version(s.Context(), s.store.ID, want.ID)
		s.must(err)
		s.equal(got, want)
	}
	for _, id := range []string{
		"", "memver_", "x", first.MemoryID, strings.ToUpper(first.ID), first.ID + "0",
		first.ID[:len(first.ID)-1] + string(first.ID[len(first.ID)-1]^1), // its place, but another version
		"memver_" + strings.Repeat("z", 26), "memver_" + strings.Repeat("0", 26),
	} {
		_, err := s.log.Version(s.Context(), s.store.ID, id)
		s.wantErr(err, versionlog.ErrNotFound)
	}
}

func testHistory(s *suite) {
	want := []versionlog.Version{s.put("/a", "1")}
	s.put("/other", "1")
	want = append(want, s.put("/a", "2"))
	want = append(want, s.commit(rename("/a", "/b", anything))[0])
	s.put("/a", "another memory")
	want = append(want, s.commit(remove("/b", anything))[0])
	revive := put("/c", "3", anything)
	revive.MemoryID = want[0].MemoryID
	want = append(want, s.commit(revive)[0])
	slices.Reverse(want)
	s.equal(s.history(want[0].MemoryID), want)
	for i, v := range want[:len(want)-1] {
		s.equal(v.Parent, want[i+1].ID)
	}
}

// testPathHistory makes memories come to a path and leave it in every way, one of them twice, and
// others next to it meanwhile.
func testPathHistory(s *suite) {
	want := map[string][]versionlog.Version{}
	note := func(v versionlog.Version) {
		want[v.Path] = append(want[v.Path], v)
		if v.From != "" {
			want[v.From] = append(want[v.From], v)
		}
	}
	do := func(changes ...versionlog.Change) []versionlog.Version {
		versions := s.commit(changes...)
		for _, v := range versions {
			note(v)
		}
		return versions
	}
	first := do(put("/a", "1", anything))[0]
	for i := range 20 { // more than a page
		do(put("/a", fmt.Sprint("1.", i), anything), put("/other", fmt.Sprint(i), anything))
	}
	do(rename("/a", "/b", anything)) // a save that moves the old file away, ...
	do(put("/a", "2", anything))
	do(remove("/b", anything))
	for i := range 9 { // ... again and again
		do(rename("/a", "/b", anything))
		do(put("/a", fmt.Sprint("2.", i), anything))
		do(remove("/b", anything))
	}
	do(remove("/a", anything), rename("/other", "/c", anything))
	revive := put("/a", "3", anything)
	revive.MemoryID = first.MemoryID
	do(revive)
	do(rename("/a", "/d", anything))
	do(rename("/d", "/a", anything))
	do(rename("/a", "/d/e", anything), put("/b", "4", anything))
	check := func() {
		s.Helper()
		for path, versions := range want {
			wanted := slices.Clone(versions)
			slices.Reverse(wanted)
			s.equal(collect(s.T, s.log.PathHistory(s.Context(), s.store.ID, path)), wanted)
			last, err := s.log.Last(s.Context(), s.store.ID, path)
			s.must(err)
			s.equal(last, wanted[0])
		}
	}
	check()
	do(rename("/c", "/a", anything))
	do(put("/a", "5", anything))
	check()
	for _, path := range []string{"/none", "/d", "/", "", "a", strings.Repeat("/a", 1000)} {
		if want[path] == nil {
			s.equal(len(collect(s.T, s.log.PathHistory(s.Context(), s.store.ID, path))), 0)
		}
	}
	s.wantErr(firstError(s.log.PathHistory(s.Context(), "memstore_none", "/a")), versionlog.ErrNotFound)
	if s.cfg.Reopen != nil {
		s.log = s.cfg.Reopen(s.T, s.log)
		check()
	}
}

func testCommits(s *suite) {
	var want []*versionlog.Commit
	for i := range 220 { // more than a page
		c, err := s.try(put("/a", fmt.Sprint(i), anything))
		s.must(err)
		want = append(want, c)
	}
	s.equal(s.commits(0), want)
	s.equal(s.commits(217), want[217:])
	s.equal(len(s.commits(220)), 0)
	s.equal(len(s.commits(1000)), 0)
	s.equal(len(s.commits(1<<64-1)), 0)
	s.equal(len(s.history(want[0].Versions[0].MemoryID)), 220)
	s.verifyChain()
}

func testStopsEarly(s *suite) {
	v := s.put("/a", "1")
	s.put("/a", "2")
	s.put("/b", "1")
	for range 20 { // whatever a walk holds on to, leaving it gives it back
		for range s.log.Heads(s.Context(), s.store.ID, "/", "") {
			break
		}
		for range s.log.Heads(s.Context(), s.store.ID, "/a", "") {
			break
		}
		for range s.log.History(s.Context(), s.store.ID, v.MemoryID, 0) {
			break
		}
		for range s.log.PathHistory(s.Context(), s.store.ID, "/a") {
			break
		}
		for range s.log.Commits(s.Context(), s.store.ID, 0) {
			break
		}
	}
	s.put("/a", "3")
}

// testSlowWalk: the log can be used, and written to, from within a walk.
func testSlowWalk(s *suite) {
	s.put("/a", "1")
	s.put("/b", "1")
	for v, err := range s.log.Heads(s.Context(), s.store.ID, "/", "") {
		s.must(err)
		s.put(v.Path, "2")
		s.equal(s.head(v.Path).Parent, v.ID)
	}
	for c, err := range s.log.Commits(s.Context(), s.store.ID, 0) {
		s.must(err)
		if c.Seq < 3 {
			s.put("/c", fmt.Sprint(c.Seq))
		}
	}
	s.equal(s.tip().Seq, uint64(6))
}

// testKnownTip holds for a log that knows the tip: whichever process commits, it is that of Tip
// or unknown.
func testKnownTip(s *suite) {
	logs := []versionlog.Log{s.log}
	if s.cfg.Share != nil {
		logs = append(logs, s.cfg.Share(s, s.log))
	}
	for i := range 20 {
		s.put("/a", fmt.Sprint(i))
		for _, l := range logs {
			knownTip := l.Capabilities().KnownTip
			if knownTip == nil {
				return
			}
			got, known := knownTip(s.store.ID)
			want, err := l.Tip(s.Context(), s.store.ID)
			s.must(err)
			if known && got != want {
				s.Errorf("known tip %+v, tip %+v", got, want)
			}
			if tip, known := knownTip(s.store.ID); known && tip != want {
				s.Errorf("known tip %+v after it was asked for, want %+v", tip, want)
			}
			if _, known := knownTip("memstore_none"); known {
				s.Error("the tip of a store that does not exist is known")
			}
		}
	}
	s.archive()
	for _, l := range logs {
		if tip, known := l.Capabilities().KnownTip(s.store.ID); known && tip.ArchivedAt.IsZero() {
			s.Error("the known tip does not say that the store is archived")
		}
	}
}

// testResumes: a listing that continues after a seen entry is the rest of it.
func testResumes(s *suite) {
	for _, path := range []string{"/a", "/d/1", "/d/2", "/d/3", "/d!", "/d0", "/e/f/g"} {
		for i := range 3 {
			s.put(path, fmt.Sprint(i))
		}
	}
	ctx, state := s.Context(), s.at(s.store.ID, s.tip().Seq)
	for _, prefix := range []string{"/", "/d", "/a", "/none"} {
		all := collect(s.T, s.log.Heads(ctx, s.store.ID, prefix, ""))
		for _, after := range []string{"/", "/a", "/b", "/d", "/d/", "/d/1", "/d/2\x00", "/d/3", "/d0", "/z"} {
			want := slices.DeleteFunc(slices.Clone(all), func(v versionlog.Version) bool { return v.Path <= after })
			for _, got := range [][]versionlog.Version{
				collect(s.T, s.log.Heads(ctx, s.store.ID, prefix, after)), collect(s.T, state.Heads(ctx, prefix, after)),
			} {
				if !slices.Equal(got, want) {
					s.Errorf("heads of %s after %s are %q, want %q", prefix, after, paths(got), paths(want))
				}
			}
		}
	}
	all := s.history(s.heads("/")[0].MemoryID)
	for before := range uint64(6) {
		want := slices.DeleteFunc(slices.Clone(all), func(v versionlog.Version) bool { return before > 0 && v.Seq >= before })
		if got := collect(s.T, s.log.History(ctx, s.store.ID, all[0].MemoryID, before)); !slices.Equal(got, want) {
			s.Errorf("the history before %d is %+v, want %+v", before, got, want)
		}
	}
}

// testFilter: commits come newest first, from any number down, and only those that are asked for,
// even if others change them meanwhile.
func testFilter(s *suite) {
	var memories []string
	for i := range 40 {
		p := proposal(put(fmt.Sprint("/", i%3), fmt.Sprint(i), anything))
		p.Session, p.Actor.ID = fmt.Sprint("s", i%2), fmt.Sprint("a", i%5)
		if i%7 == 6 {
			p.Changes = append(p.Changes, put("/gone", "1", anything))
		}
		if i%7 == 0 && i > 0 {
			p.Changes = append(p.Changes, remove("/gone", anything))
		}
		c, err := s.log.Commit(s.Context(), s.store.ID, p)
		s.must(err)
		if memories = append(memories, c.Versions[0].MemoryID); i%10 == 9 {
			s.clock.move(time.Minute)
		}
	}
	all := s.commits(0)
	slices.Reverse(all)
	for _, f := range []versionlog.Filter{
		{}, {Session: "s1"}, {ActorID: "a2"}, {Session: "s0", ActorID: "a3"}, {Session: "none"},
		{Op: versionlog.OpDeleted}, {Op: versionlog.OpCreated}, {Op: versionlog.OpRenamed}, {MemoryID: memories[1]}, {MemoryID: "mem_none"},
		{MemoryID: memories[1], Op: versionlog.OpCreated}, {MemoryID: memories[1], Op: versionlog.OpDeleted},
		{From: all[20].Time}, {To: all[20].Time}, {From: all[25].Time, To: all[15].Time}, {From: all[20].Time.Add(1)}, {To: all[20].Time.Add(-1)},
		{From: all[0].Time.Add(time.Hour)}, {To: all[39].Time.Add(-time.Hour)}, {Session: "s1", MemoryID: memories[1], From: all[25].Time},
	} {
		befores := []uint64{0, 17, 1, 2, 40, 41, 1 << 63}
		if s.cfg.Remote && f != (versionlog.Filter{}) && f != (versionlog.Filter{MemoryID: memories[1]}) {
			befores = befores[:2]
		}
		for _, before := range befores {
			var want []*versionlog.Commit
			for _, c := range all {
				if (before == 0 || c.Seq < before) && f.Takes(c) {
					want = append(want, c)
				}
			}
			s.equal(collect(s.T, s.log.CommitsBefore(s.Context(), s.store.ID, before, f)), want)
		}
	}
}
