package logtest

import (
	"errors"

	"mneme/versionlog"
)

var pathTests = map[string]func(*suite){
	"BelowMemory":      testBelowMemory,
	"AboveMemory":      testAboveMemory,
	"WithinProposal":   testWithinProposal,
	"RenameOverlaps":   testRenameOverlaps,
	"MakesRoom":        testMakesRoom,
	"NeighbourNames":   testNeighbourNames,
	"AfterRemoval":     testOverlapAfterRemoval,
	"BytesAreCompared": testBytesAreCompared,
}

func (s *suite) overlaps(err error, path, with string) {
	s.Helper()
	s.wantErr(err, versionlog.ErrOverlap)
	var overlap *versionlog.OverlapError
	if !errors.As(err, &overlap) {
		s.Fatalf("%v is no *OverlapError", err)
	}
	s.equal(overlap.Path, path)
	if overlap.With.Path != with {
		s.Errorf("the overlap is with %q, want %q", overlap.With.Path, with)
	}
	if with != "" {
		s.equal(overlap.With, s.head(with))
	}
}

func testBelowMemory(s *suite) {
	s.put("/a", "1")
	s.unchanged(func() {
		for _, path := range []string{"/a/b", "/a/b/c/d"} {
			_, err := s.try(put(path, "1", anything))
			s.overlaps(err, path, "/a")
		}
	})
}

func testAboveMemory(s *suite) {
	s.put("/a/b/c", "1")
	s.unchanged(func() {
		for _, path := range []string{"/a", "/a/b"} {
			_, err := s.try(put(path, "1", anything))
			s.overlaps(err, path, "/a/b/c")
		}
	})
}

func testWithinProposal(s *suite) {
	s.put("/x", "1")
	s.unchanged(func() {
		_, err := s.try(put("/a", "1", anything), put("/a/b", "1", anything))
		s.overlaps(err, "/a/b", "")
		_, err = s.try(put("/a/b/c", "1", anything), rename("/x", "/a", anything))
		s.overlaps(err, "/a/b/c", "")
	})
}

func testRenameOverlaps(s *suite) {
	s.put("/a", "1")
	s.put("/d/b", "1")
	s.unchanged(func() {
		_, err := s.try(rename("/a", "/d", anything))
		s.overlaps(err, "/d", "/d/b")
		_, err = s.try(rename("/a", "/d/b/c", anything))
		s.overlaps(err, "/d/b/c", "/d/b")
	})
}

// testMakesRoom: what the same commit frees is no obstacle.
func testMakesRoom(s *suite) {
	s.put("/a", "1")
	s.commit(rename("/a", "/a/b", anything))
	s.commit(rename("/a/b", "/a", anything))
	s.commit(remove("/a", anything), put("/a/b", "1", anything), put("/a/c", "1", anything))
	s.unchanged(func() {
		_, err := s.try(remove("/a/b", anything), put("/a", "1", anything))
		s.overlaps(err, "/a", "/a/c")
	})
	s.commit(remove("/a/b", anything), rename("/a/c", "/c", anything), put("/a", "1", anything))
	s.equal(paths(s.heads("/")), []string{"/a", "/c"})
}

// testNeighbourNames: a common beginning is not a common directory.
func testNeighbourNames(s *suite) {
	for _, path := range []string{"/a", "/ab", "/a-", "/a.md", "/a0", "/b/c", "/bc"} {
		s.put(path, "1")
	}
	s.equal(paths(s.heads("/a")), []string{"/a"})
	s.equal(paths(s.heads("/b")), []string{"/b/c"})
}

func testOverlapAfterRemoval(s *suite) {
	s.put("/a", "1")
	s.commit(remove("/a", anything))
	s.put("/a/b", "1")
	s.commit(rename("/a/b", "/c", anything))
	s.put("/a", "1")
}

func testBytesAreCompared(s *suite) {
	names := []string{"/A", "/a", "/a\x00b", "/a b", "/e\u0301", "/\u00e9", "/%", "/_", "/\U0001F600"}
	for _, path := range names {
		s.equal(s.put(path, path).Op, versionlog.OpCreated)
	}
	for _, path := range names {
		s.equal(s.head(path).Path, path)
		s.equal(paths(s.heads(path)), []string{path})
	}
	s.equal(len(s.heads("/")), len(names))
}
