package logtest

import (
	"errors"

	"mneme/cas"
	"mneme/versionlog"
)

var conflictTests = map[string]func(*suite){
	"Expectations":          testExpectations,
	"CarriesHeads":          testCarriesHeads,
	"MissingMemory":         testMissingMemory,
	"RenameOntoMemory":      testRenameOntoMemory,
	"BeforeTheCommit":       testBeforeTheCommit,
	"ConflictBeforeOverlap": testConflictBeforeOverlap,
}

func (s *suite) conflicts(err error) []versionlog.Conflict {
	s.Helper()
	s.wantErr(err, versionlog.ErrConflict)
	var conflict *versionlog.ConflictError
	if !errors.As(err, &conflict) {
		s.Fatalf("%v is no *ConflictError", err)
	}
	s.equal(conflict.StoreID, s.store.ID)
	return conflict.Conflicts
}

// testExpectations tries every kind of expectation on a path with a head, on
// one that lost its head and on one that never had any, with every action.
func testExpectations(s *suite) {
	old := s.put("/live", "1")
	head := s.put("/live", "2")
	gone := s.put("/gone", "1")
	s.commit(remove("/gone", anything))
	for _, test := range []struct {
		expect             versionlog.Expectation
		live, gone, absent bool
	}{
		{versionlog.ExpectAny(), true, true, true},
		{versionlog.ExpectAbsent(), false, true, true},
		{versionlog.ExpectExists(), true, false, false},
		{versionlog.ExpectVersion(head.ID), true, false, false},
		{versionlog.ExpectVersion(old.ID), false, false, false},
		{versionlog.ExpectVersion(gone.ID), false, false, false},
		{versionlog.ExpectVersion(""), false, false, false},
		{versionlog.ExpectDigest(head.Digest), true, false, false},
		{versionlog.ExpectDigest(old.Digest), false, false, false},
		{versionlog.ExpectDigest(cas.Digest{}), false, false, false},
	} {
		s.expectation(test.expect, "/live", &head, test.live)
		s.expectation(test.expect, "/gone", nil, test.gone)
		s.expectation(test.expect, "/absent", nil, test.absent)
	}
}

// expectation makes sure that changes of a path with that head go through or
// fail, and leaves no trace: each is proposed with another that always fails.
func (s *suite) expectation(expect versionlog.Expectation, path string, head *versionlog.Version, holds bool) {
	s.Helper()
	fails := put("/never", "1", versionlog.ExpectExists())
	failure := versionlog.Conflict{Path: "/never", Expected: fails.Expect}
	for _, c := range []versionlog.Change{put(path, "new", expect), remove(path, expect), rename(path, "/to", expect)} {
		want := []versionlog.Conflict{{Path: path, Expected: expect, Head: head}, failure}
		if holds && (head != nil || c.Action == versionlog.Put) {
			want = want[1:]
		}
		_, err := s.try(c, fails)
		got := s.conflicts(err)
		s.Logf("action %d on %s expecting %v", c.Action, path, expect)
		s.sameConflicts(got, want)
	}
}

func (s *suite) sameConflicts(got, want []versionlog.Conflict) {
	s.Helper()
	s.equal(len(got), len(want))
	for i := range want {
		s.equal(got[i].Path, want[i].Path)
		s.equal(got[i].Head, want[i].Head)
		if got[i].Expected != want[i].Expected {
			s.Errorf("the conflict expected %v, want %v", got[i].Expected, want[i].Expected)
		}
	}
}

func testCarriesHeads(s *suite) {
	a, b := s.put("/a", "1"), s.put("/b", "1")
	a2 := s.put("/a", "2")
	expectA, expectB := versionlog.ExpectVersion(a.ID), versionlog.ExpectAbsent()
	s.unchanged(func() {
		_, err := s.try(put("/a", "3", expectA), put("/ok", "1", anything), put("/b", "3", expectB))
		s.sameConflicts(s.conflicts(err), []versionlog.Conflict{
			{Path: "/a", Expected: expectA, Head: &a2}, {Path: "/b", Expected: expectB, Head: &b},
		})
	})
}

func testMissingMemory(s *suite) {
	s.unchanged(func() {
		_, err := s.try(remove("/a", anything))
		s.sameConflicts(s.conflicts(err), []versionlog.Conflict{{Path: "/a", Expected: anything}})
		_, err = s.try(rename("/a", "/b", anything))
		s.sameConflicts(s.conflicts(err), []versionlog.Conflict{{Path: "/a", Expected: anything}})
	})
}

func testRenameOntoMemory(s *suite) {
	s.put("/a", "1")
	b := s.put("/b", "1")
	want := []versionlog.Conflict{{Path: "/b", Expected: versionlog.ExpectAbsent(), Head: &b}}
	s.unchanged(func() {
		_, err := s.try(rename("/a", "/b", anything))
		s.sameConflicts(s.conflicts(err), want)
	})
}

// testBeforeTheCommit: expectations speak of the state before the commit.
func testBeforeTheCommit(s *suite) {
	s.put("/d/a", "1")
	s.unchanged(func() {
		_, err := s.try(remove("/d/a", anything), put("/d", "1", versionlog.ExpectExists()))
		s.wantErr(err, versionlog.ErrConflict)
	})
	s.commit(remove("/d/a", anything), put("/d", "1", versionlog.ExpectAbsent()))
	s.equal(paths(s.heads("/")), []string{"/d"})
}

func testConflictBeforeOverlap(s *suite) {
	s.put("/d/a", "1")
	_, err := s.try(put("/d", "1", versionlog.ExpectExists()))
	s.wantErr(err, versionlog.ErrConflict)
}
