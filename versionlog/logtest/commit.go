package logtest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"mneme/cas"
	"mneme/versionlog"
)

var commitTests = map[string]func(*suite){
	"Created":            testCreated,
	"Modified":           testModified,
	"Removed":            testRemoved,
	"Renamed":            testRenamed,
	"RenamedAndModified": testRenamedAndModified,
	"Many":               testMany,
	"Revive":             testRevive,
	"ReviveRefused":      testReviveRefused,
	"Satisfied":          testSatisfied,
	"Key":                testKey,
	"KeyConcurrently":    testKeyConcurrently,
	"KeyAfterFailure":    testKeyAfterFailure,
	"Invalid":            testInvalid,
	"TooLarge":           testTooLarge,
	"Quota":              testQuota,
	"StoreQuota":         testStoreQuota,
	"Guard":              testGuard,
	"Totals":             testTotals,
	"Chain":              testChain,
	"ClockGoesBack":      testClockGoesBack,
	"LargeDirectoryMove": testLargeMove,
}

// isVersion compares a version with the expected one, except its id.
func (s *suite) isVersion(got, want versionlog.Version) {
	s.Helper()
	p := proposal()
	want.ID, want.Actor, want.Session, want.Message = got.ID, p.Actor, p.Session, p.Message
	want.Time = s.clock.now().UTC().Truncate(time.Microsecond)
	s.equal(got, want)
}

func testCreated(s *suite) {
	v := s.put("/a/b", "1")
	if v.ID == "" || !strings.HasPrefix(v.MemoryID, "mem_") {
		s.Errorf("ids are %q and %q", v.ID, v.MemoryID)
	}
	s.isVersion(v, versionlog.Version{
		MemoryID: v.MemoryID, Seq: 1, Op: versionlog.OpCreated, Path: "/a/b", Digest: cas.Sum([]byte("1")), Size: 1,
	})
	s.equal(s.head("/a/b"), v)
	if other := s.put("/c", "1"); other.MemoryID == v.MemoryID || other.ID == v.ID {
		s.Error("two memories have one id")
	}
	s.clock.move(time.Hour)
	late := s.put("/late", "1")
	at, err := versionlog.MemoryTime(late.MemoryID)
	s.must(err)
	s.equal(at, late.Time.Truncate(time.Millisecond))
	s.equal(at, s.clock.now().UTC().Truncate(time.Millisecond))
}

func testModified(s *suite) {
	first := s.put("/a", "1")
	s.clock.move(time.Second)
	v := s.put("/a", "22")
	s.isVersion(v, versionlog.Version{
		MemoryID: first.MemoryID, Parent: first.ID, Seq: 2, Op: versionlog.OpModified, Path: "/a",
		Digest: cas.Sum([]byte("22")), Size: 2,
	})
	s.equal(s.head("/a"), v)
}

func testRemoved(s *suite) {
	first := s.put("/a", "1")
	v := s.commit(remove("/a", anything))[0]
	s.isVersion(v, versionlog.Version{MemoryID: first.MemoryID, Parent: first.ID, Seq: 2, Op: versionlog.OpDeleted, Path: "/a"})
	_, err := s.log.Head(s.Context(), s.store.ID, "/a")
	s.wantErr(err, versionlog.ErrNotFound)
	if again := s.put("/a", "1"); again.MemoryID == first.MemoryID || again.Parent != "" || again.Op != versionlog.OpCreated {
		s.Errorf("a put after a removal made %+v, want a new memory", again)
	}
}

func testRenamed(s *suite) {
	first := s.put("/a", "1")
	v := s.commit(rename("/a", "/d/b", anything))[0]
	s.isVersion(v, versionlog.Version{
		MemoryID: first.MemoryID, Parent: first.ID, Seq: 2, Op: versionlog.OpRenamed, Path: "/d/b", From: "/a",
		Digest: first.Digest, Size: first.Size,
	})
	s.equal(s.heads("/"), []versionlog.Version{v})
	s.equal(s.head("/d/b"), v)
	back := s.commit(rename("/d/b", "/a", versionlog.ExpectVersion(v.ID)))[0]
	s.equal(s.heads("/"), []versionlog.Version{back})
}

// testRenamedAndModified: a rename may give the memory another content, in one version.
func testRenamedAndModified(s *suite) {
	first := s.put("/a", "1")
	v := s.commit(renameAs("/a", "/d/b", "22", versionlog.ExpectDigest(first.Digest)))[0]
	s.isVersion(v, versionlog.Version{
		MemoryID: first.MemoryID, Parent: first.ID, Seq: 2, Op: versionlog.OpRenamed, Path: "/d/b", From: "/a",
		Digest: cas.Sum([]byte("22")), Size: 2,
	})
	s.equal(s.heads("/"), []versionlog.Version{v})
	s.equal(s.history(first.MemoryID), []versionlog.Version{v, first})
	s.equal(s.tip().Totals.Memories, int64(1))
	other := s.put("/other", "1")
	s.unchanged(func() {
		for _, c := range []versionlog.Change{renameAs("/d/b", "/c", "3", versionlog.ExpectDigest(first.Digest)), renameAs("/d/b", "/other", "3", anything)} {
			_, err := s.try(c)
			s.wantErr(err, versionlog.ErrConflict)
		}
		_, err := s.try(renameAs("/d/", "/e/", "3", anything))
		s.wantErr(err, versionlog.ErrInvalid)
	})
	s.commit(remove("/other", versionlog.ExpectVersion(other.ID)), renameAs("/d/b", "/d/c", "22", anything))
	s.equal([]any{s.head("/d/c").Digest, s.head("/d/c").Parent}, []any{v.Digest, v.ID}) // the content that it has
	s.verifyChain()
}

func testMany(s *suite) {
	s.put("/keep", "1")
	a, b := s.put("/a", "1"), s.put("/b", "1")
	tip := s.tip()
	c, err := s.try(put("/a", "2", versionlog.ExpectVersion(a.ID)), remove("/b", versionlog.ExpectVersion(b.ID)),
		put("/keep", "1", anything), put("/d/c", "1", versionlog.ExpectAbsent()))
	s.must(err)
	s.equal(c.Seq, tip.Seq+1)
	s.equal(paths(c.Versions), []string{"/a", "/b", "/d/c"})
	for i, v := range c.Versions {
		s.equal(v.Seq, c.Seq)
		got, err := s.log.Version(s.Context(), s.store.ID, v.ID)
		s.must(err)
		s.equal(got, v)
		if i > 0 && v.ID <= c.Versions[i-1].ID {
			s.Errorf("id %s does not sort after %s", v.ID, c.Versions[i-1].ID)
		}
	}
	s.equal(paths(s.heads("/")), []string{"/a", "/d/c", "/keep"})

	s.unchanged(func() { // one of them fails: none happens
		_, err := s.try(put("/a", "3", anything), put("/new", "1", anything), remove("/b", anything))
		s.wantErr(err, versionlog.ErrConflict)
	})
}

func testRevive(s *suite) {
	first := s.put("/a", "1")
	gone := s.commit(remove("/a", anything))[0]
	c := put("/elsewhere", "2", versionlog.ExpectAbsent())
	c.MemoryID = first.MemoryID
	v := s.commit(c)[0]
	s.isVersion(v, versionlog.Version{
		MemoryID: first.MemoryID, Parent: gone.ID, Seq: 3, Op: versionlog.OpCreated, Path: "/elsewhere", Digest: c.Digest, Size: 1,
	})
	s.equal(s.history(first.MemoryID), []versionlog.Version{v, gone, first})

	c.Path = "/elsewhere" // with a head the memory is the head's
	c.Digest, c.MemoryID, c.Expect = cas.Sum([]byte("3")), "mem_unknown", anything
	s.equal(s.commit(c)[0].MemoryID, first.MemoryID)
}

func testReviveRefused(s *suite) {
	live, gone := s.put("/a", "1"), s.put("/b", "1")
	s.commit(remove("/b", anything))
	s.unchanged(func() {
		for _, id := range []string{live.MemoryID, "mem_unknown"} {
			c := put("/c", "1", anything)
			c.MemoryID = id
			_, err := s.try(c)
			s.wantErr(err, versionlog.ErrInvalid)
		}
		c, d := put("/c", "1", anything), put("/d", "1", anything)
		c.MemoryID, d.MemoryID = gone.MemoryID, gone.MemoryID // one memory at two paths
		_, err := s.try(c, d)
		s.wantErr(err, versionlog.ErrInvalid)
	})
}

func testSatisfied(s *suite) {
	s.put("/a", "1")
	tip := s.tip()
	s.unchanged(func() {
		for _, expect := range []versionlog.Expectation{
			anything, versionlog.ExpectExists(), versionlog.ExpectVersion("memver_other"), versionlog.ExpectDigest(cas.Sum([]byte("other"))),
		} {
			c, err := s.try(put("/a", "1", expect))
			s.must(err)
			s.equal(c, &versionlog.Commit{StoreID: s.store.ID, Seq: tip.Seq, Digest: tip.Digest, Time: tip.Time})
		}
		_, err := s.try(put("/a", "1", versionlog.ExpectAbsent()))
		s.wantErr(err, versionlog.ErrConflict)
	})
	s.equal(paths(s.commit(put("/a", "1", anything), put("/b", "1", anything))), []string{"/b"})
}

func testKey(s *suite) {
	p := fresh(put("/a", "1", versionlog.ExpectAbsent()))
	first, err := s.log.Commit(s.Context(), s.store.ID, p)
	s.must(err)
	p.Fresh = false
	s.put("/a", "2")
	s.unchanged(func() {
		again, err := s.log.Commit(s.Context(), s.store.ID, p)
		s.must(err)
		s.equal(again, first)
		p.Changes = []versionlog.Change{put("/other", "x", anything)} // the key decides
		again, err = s.log.Commit(s.Context(), s.store.ID, p)
		s.must(err)
		s.equal(again, first)
	})
	s.archive()
	again, err := s.log.Commit(s.Context(), s.store.ID, p)
	s.must(err)
	s.equal(again, first)
}

func testKeyConcurrently(s *suite) {
	const callers = 8
	logs := []versionlog.Log{s.log, s.log}
	if s.cfg.Share != nil {
		logs[1] = s.cfg.Share(s, s.log)
	}
	for round := range 5 {
		p := proposal(put(fmt.Sprintf("/%d", round), "1", versionlog.ExpectAbsent()))
		var wg sync.WaitGroup
		commits, errs := make([]*versionlog.Commit, callers), make([]error, callers)
		for i := range callers {
			wg.Go(func() { commits[i], errs[i] = logs[i%2].Commit(s.Context(), s.store.ID, p) })
		}
		wg.Wait()
		for i := range callers {
			s.must(errs[i])
			s.equal(commits[i], commits[0])
		}
		s.equal(s.tip().Seq, uint64(round+1))
	}
}

func testKeyAfterFailure(s *suite) {
	p := proposal(put("/a", "1", versionlog.ExpectExists()))
	_, err := s.log.Commit(s.Context(), s.store.ID, p)
	s.wantErr(err, versionlog.ErrConflict)
	s.put("/a", "0")
	c, err := s.log.Commit(s.Context(), s.store.ID, p) // a failure does not use the key up
	s.must(err)
	s.equal(c.Seq, uint64(2))
}

func testInvalid(s *suite) {
	s.put("/a", "1")
	good := put("/b", "1", anything)
	bad := map[string]func(*versionlog.Proposal){
		"no key":         func(p *versionlog.Proposal) { p.Key = "" },
		"long key":       func(p *versionlog.Proposal) { p.Key = strings.Repeat("k", 129) },
		"no changes":     func(p *versionlog.Proposal) { p.Changes = nil },
		"no expectation": func(p *versionlog.Proposal) { p.Changes[0].Expect = versionlog.Expectation{} },
		"no action":      func(p *versionlog.Proposal) { p.Changes[0].Action = 0 },
		"no content":     func(p *versionlog.Proposal) { p.Changes[0].Digest = cas.Digest{} },
		"negative size":  func(p *versionlog.Proposal) { p.Changes[0].Size = -1 },
		"one path twice": func(p *versionlog.Proposal) { p.Changes = append(p.Changes, remove("/b", anything)) },
		"rename and put": func(p *versionlog.Proposal) { p.Changes = append(p.Changes, rename("/a", "/b", anything)) },
		"onto itself":    func(p *versionlog.Proposal) { p.Changes[0] = rename("/a", "/a", anything) },
		"bad text":       func(p *versionlog.Proposal) { p.Message = "\xff" },
	}
	for _, path := range []string{"", "/", "b", "/b/", "/\xff"} {
		bad["path "+path] = func(p *versionlog.Proposal) { p.Changes[0].Path = path }
		bad["rename to "+path] = func(p *versionlog.Proposal) { p.Changes[0] = rename("/a", path, anything) }
	}
	s.unchanged(func() {
		for what, spoil := range bad {
			p := proposal(good)
			spoil(p)
			s.Log(what)
			_, err := s.log.Commit(s.Context(), s.store.ID, p)
			s.wantErr(err, versionlog.ErrInvalid)
		}
	})
	s.commit(good)
}

func testTooLarge(s *suite) {
	changes := make([]versionlog.Change, versionlog.MaxChanges+1)
	for i := range changes {
		changes[i] = put(fmt.Sprintf("/%d", i), "1", anything)
	}
	s.unchanged(func() {
		_, err := s.try(changes...)
		s.wantErr(err, versionlog.ErrTooLarge)
	})
}

// testQuota: a commit that would pass a bound of its session's quota is refused, and
// leaves nothing; what uses no more of the bound, and what only deletes, is not.
func testQuota(s *suite) {
	s.put("/a", "1")
	s.put("/m", "1")
	for name, test := range map[string]struct {
		quota versionlog.Quota
		used  versionlog.Usage
		at    []versionlog.Change // passes
		over  []versionlog.Change // does not
	}{
		"bytes": {
			versionlog.Quota{Bytes: 100}, versionlog.Usage{Bytes: 97, Memories: 1000, LastHour: 1000},
			[]versionlog.Change{put("/b", "123", anything), rename("/a", "/c", anything)},
			[]versionlog.Change{put("/b", "1234", anything), rename("/c", "/d", anything)},
		},
		"memories": {
			versionlog.Quota{Memories: 100}, versionlog.Usage{Bytes: 1000, Memories: 98},
			[]versionlog.Change{put("/e", "1", anything), put("/f", "1", anything), put("/m", "2", anything)},
			[]versionlog.Change{put("/g", "1", anything), put("/h", "1", anything), put("/i", "1", anything), put("/m", "3", anything)},
		},
		"versions": {
			versionlog.Quota{PerHour: 100}, versionlog.Usage{LastHour: 99},
			[]versionlog.Change{put("/j", "1", anything)},
			[]versionlog.Change{put("/k", "1", anything), remove("/j", anything)},
		},
	} {
		propose := func(changes []versionlog.Change) error {
			p := proposal(changes...)
			p.Quota, p.Used = test.quota, test.used
			_, err := s.log.Commit(s.Context(), s.store.ID, p)
			return err
		}
		if err := propose(test.at); err != nil {
			s.Errorf("%s: up to the bound: %v", name, err)
		}
		s.unchanged(func() { s.wantErr(propose(test.over), versionlog.ErrQuota) })
		test.used = versionlog.Usage{Bytes: 1000, Memories: 1000, LastHour: 1000}
		if err := propose([]versionlog.Change{remove(test.at[0].Path, anything)}); err != nil {
			s.Errorf("%s: a deletion beyond the bound: %v", name, err)
		}
	}
}

// testStoreQuota: the quota of a store bounds what all sessions add together, from
// when it is set on, in every log that has the store open.
func testStoreQuota(s *suite) {
	setter := s.log
	if s.cfg.Share != nil {
		setter = s.cfg.Share(s, s.log)
	}
	setQuota := func(q versionlog.Quota) {
		s.Helper()
		s.store.Quota = q
		c, err := setter.Commit(s.Context(), s.store.ID, event(versionlog.StoreUpdated(wholeQuota(q))))
		s.must(err)
		if s.store.UpdatedAt = c.Time; !c.Changes() {
			s.Fatal("the quota was so already")
		}
		got, err := s.log.Store(s.Context(), s.store.ID)
		s.must(err)
		s.equal(got, s.store)
	}
	over := func(changes ...versionlog.Change) {
		s.Helper()
		s.unchanged(func() {
			_, err := s.try(changes...)
			var quota *versionlog.QuotaError
			if s.wantErr(err, versionlog.ErrQuota); !errors.As(err, &quota) || quota.Whose != versionlog.WhoseStore {
				s.Errorf("the error is %+v, want that of the store's quota", quota)
			}
		})
	}
	s.put("/a", "1234567890") // counts, though there was no quota
	s.put("/b", "1")
	setQuota(versionlog.Quota{Bytes: 15})
	s.commit(put("/a", "4444", anything), rename("/b", "/c", anything))
	over(put("/a", "1", anything))
	s.commit(rename("/c", "/b", anything), remove("/a", anything)) // adds nothing
	over(put("/a", "1", anything))                                 // and frees nothing
	over(renameAs("/b", "/c", "2", anything))

	setQuota(versionlog.Quota{Memories: 2})
	s.put("/a", "1")
	over(put("/c", "1", anything))
	s.commit(put("/a", "2", anything))
	s.commit(remove("/b", anything))
	s.put("/c", "1")

	setQuota(versionlog.Quota{PerHour: 12}) // ten so far
	s.commit(put("/a", "3", anything), put("/c", "3", anything))
	over(rename("/a", "/b", anything))
	s.commit(remove("/c", anything))
	s.clock.move(time.Hour)
	s.put("/c", "4")

	setQuota(versionlog.Quota{})
	s.put("/d", "1234567890")
	s.put("/e", "1")
}

// testTotals: the tip says what the commits add up to, in a log that is opened again, too.
func testTotals(s *suite) {
	s.put("/a", "12345")
	s.commit(put("/a", "123", anything), put("/b", "1234", anything))
	s.commit(rename("/a", "/c", anything), remove("/b", anything))
	s.equal(s.tip().Totals, versionlog.Totals{Bytes: 12, Memories: 1, InHour: 5})
	s.clock.move(time.Hour)
	s.put("/d", "")
	s.equal(s.tip().Totals, versionlog.Totals{Bytes: 12, Memories: 2, InHour: 1})
	if s.cfg.Reopen != nil {
		s.log = s.cfg.Reopen(s, s.log)
		s.equal(s.tip().Totals, versionlog.Totals{Bytes: 12, Memories: 2, InHour: 1})
	}
}

func testChain(s *suite) {
	v := s.put("/a", "1")
	s.commit(rename("/a", "/b", versionlog.ExpectVersion(v.ID)), put("/c <&>\u2028", "1", anything))
	s.commit(remove("/b", anything))
	s.verifyChain()
}

// verifyChain reads the whole history and checks every link of it.
func (s *suite) verifyChain() {
	s.Helper()
	var tip versionlog.Tip
	keys := map[string]bool{}
	commits, before := s.commits(0), s.store
	if len(commits) > 0 {
		before = before.Before(commits[0])
	}
	rehearsal := versionlog.NewRehearsal(before)
	for _, c := range commits {
		s.must(rehearsal.Add(c))
		if c.Seq != tip.Seq+1 || c.Prev != tip.Digest || c.Time.Before(tip.Time) || c.StoreID != s.store.ID {
			s.Fatalf("commit %d of %s at %v does not follow %+v", c.Seq, c.StoreID, c.Time, tip)
		}
		if keys[c.Key] || c.Key == "" {
			s.Errorf("key %q of commit %d is empty or was used before", c.Key, c.Seq)
		}
		keys[c.Key] = true
		record, err := versionlog.EncodeRecord(c)
		s.must(err)
		decoded, err := versionlog.DecodeRecord(record)
		s.must(err)
		s.equal(decoded, c)
		if again, err := versionlog.EncodeRecord(decoded); err != nil || !bytes.Equal(again, record) {
			s.Errorf("record %d reads back as another, %v", c.Seq, err)
		}
		tip = tip.After(c)
	}
	s.equal(s.tip(), tip)
	s.equal(rehearsal.Tip(), tip)
}

func testClockGoesBack(s *suite) {
	first := s.put("/a", "1")
	s.clock.move(-time.Hour)
	second := s.put("/a", "2")
	s.equal(second.Time, first.Time.Add(time.Microsecond))
	s.clock.move(2 * time.Hour)
	third := s.put("/a", "3")
	s.equal(third.Time, s.clock.now().UTC().Truncate(time.Microsecond))
	s.equal(s.tip().Time, third.Time)
	s.verifyChain()
}

func testLargeMove(s *suite) {
	const files = 300
	var creates, moves []versionlog.Change
	for i := range files {
		from := fmt.Sprintf("/old/%04d", i)
		creates = append(creates, put(from, from, versionlog.ExpectAbsent()))
		moves = append(moves, rename(from, fmt.Sprintf("/new/%04d", i), versionlog.ExpectExists()))
	}
	_, err := s.try(creates...)
	if err != nil { // a backend may take fewer changes, and says so before it tries
		s.wantErr(err, versionlog.ErrTooLarge)
		s.equal(s.tip(), versionlog.Tip{})
		return
	}
	moves = append(moves, put("/old", "now a file", anything))
	s.equal(len(s.commit(moves...)), files+1)
	s.equal(len(s.heads("/new")), files)
	s.equal(paths(s.heads("/old")), []string{"/old"})
	s.equal(len(s.heads("/")), files+1)
}
