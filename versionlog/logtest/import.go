package logtest

import (
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"mneme/versionlog"
)

var importTests = map[string]func(*suite){
	"Whole":    testImport,
	"GoesOn":   testImportGoesOn,
	"Refuses":  testImportRefuses,
	"Parallel": testImportInParallel,
	"Archived": testImportArchived,
	"Keys":     testImportKeys,
}

// imported is a store with a history of every kind of change, and another log with the
// store and nothing in it.
func (s *suite) imported() (commits []*versionlog.Commit, to versionlog.Log) {
	s.Helper()
	s.put("/a", "1")
	s.commit(put("/d/x", "1", anything), put("/d/y", "2", anything))
	s.put("/a", "2")
	s.commit(rename("/d/x", "/e/x", anything), rename("/d/y", "/e/y", anything))
	v := s.commit(remove("/a", anything))[0]
	revive := put("/back", "3", versionlog.ExpectAbsent())
	revive.MemoryID = v.MemoryID
	s.commit(revive, put("/d", "a directory was here", anything))
	s.clock.move(1e9)
	s.commit(remove("/e/x", anything), put("/e/y", "4", anything))
	s.commit(renameAs("/e/y", "/f/y", "5", anything))
	to = s.cfg.Open(s.T, s.clock.now)
	s.must(to.CreateStore(s.Context(), s.store))
	return s.commits(0), to
}

func each(commits []*versionlog.Commit) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		for _, c := range commits {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// testImport: the result of an import is the same store, byte for byte, which continues like any
// other.
func testImport(s *suite) {
	commits, to := s.imported()
	quota := versionlog.Quota{Bytes: 1, Memories: 1, PerHour: 1} // bounds no import
	bounded := s.store
	bounded.ID, bounded.Slug, bounded.Quota = s.store.ID, "bounded", quota
	s.must(to.DeleteStore(s.Context(), s.store.ID))
	s.must(to.CreateStore(s.Context(), bounded))
	s.must(versionlog.Import(s.Context(), to, s.store.ID, s.log.Commits(s.Context(), s.store.ID, 0)))
	tip, heads := s.tip(), s.heads("/")
	s.log = to
	s.equal(s.commits(0), commits)
	s.equal(s.tip(), tip)
	s.equal(s.heads("/"), heads)
	checkPast(s.Context(), s, s.log, s.store.ID)
	s.verifyChain()
	s.event(versionlog.StoreUpdated(wholeQuota(s.store.Quota)))
	s.equal(s.put("/more", "5").Seq, tip.Seq+2)
	s.archive()
	s.must(versionlog.Import(s.Context(), to, s.store.ID, each(commits)))
}

// testImportGoesOn: it may be cut anywhere, and repeated from anywhere before.
func testImportGoesOn(s *suite) {
	commits, to := s.imported()
	for i := range commits {
		for _, from := range []int{max(0, i-2), i} {
			s.must(versionlog.Import(s.Context(), to, s.store.ID, each(commits[from:i+1])))
		}
	}
	s.log = to
	s.equal(s.commits(0), commits)
}

func testImportRefuses(s *suite) {
	commits, to := s.imported()
	var there []*versionlog.Commit // of these, so far
	refused := func(want error, commits ...*versionlog.Commit) {
		s.Helper()
		log := s.log
		s.log = to
		s.unchanged(func() { s.wantErr(versionlog.Import(s.Context(), to, s.store.ID, each(commits)), want) })
		s.log = log
		if want == versionlog.ErrInvalid {
			s.wantErr(s.rehearse(slices.Concat(there, commits)...), want)
		}
	}
	changed := func(c *versionlog.Commit, change func(*versionlog.Commit)) *versionlog.Commit {
		other := *c
		other.Versions, other.Seals = slices.Clone(c.Versions), slices.Clone(c.Seals)
		change(&other)
		return &other
	}
	refused(versionlog.ErrInvalid, commits[1])
	there = commits[:2]
	s.must(versionlog.Import(s.Context(), to, s.store.ID, each(there)))
	for _, change := range []func(*versionlog.Commit){
		func(c *versionlog.Commit) { c.StoreID = versionlog.NewStoreID() },
		func(c *versionlog.Commit) { c.Seq++ },
		func(c *versionlog.Commit) { c.Prev[0]++ },
		func(c *versionlog.Commit) { c.Digest[0]++ },
		func(c *versionlog.Commit) { c.Message += "!" },
		func(c *versionlog.Commit) { c.Versions[0].Path = "/other" },
		func(c *versionlog.Commit) { c.Versions[0].Size++ },
		func(c *versionlog.Commit) { c.Seals[0].Salt[0]++ },
		func(c *versionlog.Commit) { c.Versions = nil },
	} {
		refused(versionlog.ErrInvalid, changed(commits[2], change))
	}
	refused(versionlog.ErrRewritten, changed(commits[1], func(c *versionlog.Commit) { c.Digest[0]++ }))
	refused(versionlog.ErrInvalid, changed(commits[0], func(c *versionlog.Commit) { c.Seq = 0 }))

	// Another history than the store's: it now has a commit of its own.
	p := proposal(put("/own", "1", anything))
	_, err := to.Commit(s.Context(), s.store.ID, p)
	s.must(err)
	refused(versionlog.ErrRewritten, commits...)
	refused(versionlog.ErrInvalid, commits[3])
	s.wantErr(versionlog.Import(s.Context(), to, versionlog.NewStoreID(), each(commits)), versionlog.ErrNotFound)
}

// testImportArchived: what an archived store would not have taken is not imported behind the
// commit that archives it, of the same time or later; what it takes is.
func testImportArchived(s *suite) {
	s.put("/a", "1")
	s.commit(put("/d/x", "1", anything))
	shared := s.commits(0)
	// The same history continues in two ways: here it is not archived.
	to := s.cfg.Open(s.T, s.clock.now)
	s.must(to.CreateStore(s.Context(), s.store))
	s.must(versionlog.Import(s.Context(), to, s.store.ID, each(shared)))
	s.archive()
	s.commit(remove("/d/x", anything), versionlog.Change{Action: versionlog.MakeDir, Path: "/d/", Expect: anything})
	whole := s.commits(0)
	s.must(s.rehearse(whole...))
	s.must(versionlog.Import(s.Context(), to, s.store.ID, each(whole)))
	for _, later := range []time.Duration{0, time.Second} {
		for _, p := range []*versionlog.Proposal{
			fresh(put("/a", "2", anything)), fresh(rename("/a", "/b", anything)), event(versionlog.StoreArchived()),
			event(versionlog.StoreUpdated(wholeQuota(versionlog.Quota{Bytes: 9}))),
		} {
			late := s.inUse(whole, later, p)
			s.wantErr(s.rehearse(slices.Concat(whole, []*versionlog.Commit{late})...), versionlog.ErrArchived)
			if later > 0 {
				log := s.log
				s.log = to
				s.unchanged(func() {
					s.wantErr(versionlog.Import(s.Context(), to, s.store.ID, each([]*versionlog.Commit{late})), versionlog.ErrArchived)
				})
				s.log = log
			}
		}
	}
}

// testImportKeys: a history may use a key again, once the log that it was made in has
// forgotten it.
func testImportKeys(s *suite) {
	commits, to := s.imported()
	for i, path := range []string{"/new", "/b", "/c"} {
		p := fresh(put(path, "again", anything))
		p.Key = commits[i/2].Key
		commits = append(commits, s.inUse(commits, time.Second, p))
	}
	s.must(s.rehearse(commits...))
	for i := range commits {
		s.must(versionlog.Import(s.Context(), to, s.store.ID, each(commits[max(0, i-1):i+1])))
	}
	s.log = to
	s.equal(s.commits(0), commits)
	for _, c := range []*versionlog.Commit{commits[0], commits[1]} {
		p := proposal(put("/other", "a retry", anything))
		p.Key = c.Key
		s.unchanged(func() {
			there, err := to.Commit(s.Context(), s.store.ID, p)
			s.must(err)
			s.equal(there.Key, p.Key)
		})
	}
	p := fresh(put("/other", "goes on", anything))
	_, err := to.Commit(s.Context(), s.store.ID, p)
	s.must(err)
}

// inUse returns the commit that p becomes after others if the store is not archived.
func (s *suite) inUse(before []*versionlog.Commit, later time.Duration, p *versionlog.Proposal) *versionlog.Commit {
	s.Helper()
	var tip versionlog.Tip
	for _, c := range before {
		tip = tip.After(c)
	}
	rehearsal := versionlog.NewRehearsal(s.store)
	for _, c := range before {
		s.must(rehearsal.Add(c))
	}
	store := rehearsal.Store()
	store.ArchivedAt = time.Time{}
	c, err := versionlog.Build(rehearsal, store, tip, p, tip.Time.Add(later))
	s.must(err)
	return c
}

// testImportInParallel: several import one history, and all come to its end.
func testImportInParallel(s *suite) {
	commits, to := s.imported()
	var all sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		log := to
		if s.cfg.Share != nil {
			log = s.cfg.Share(s, to)
		}
		all.Go(func() { errs[i] = versionlog.Import(s.Context(), log, s.store.ID, each(commits)) })
	}
	all.Wait()
	s.equal(fmt.Sprint(errs), fmt.Sprint(make([]error, 4)))
	s.log = to
	s.equal(s.commits(0), commits)
}

// rehearse takes in commits.
func (s *suite) rehearse(commits ...*versionlog.Commit) error {
	r := versionlog.NewRehearsal(s.store)
	for _, c := range commits {
		if err := r.Add(c); err != nil {
			return err
		}
	}
	return nil
}
