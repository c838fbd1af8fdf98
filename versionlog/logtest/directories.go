package logtest

import (
	"mneme/versionlog"
)

// directoryTests are about directories that were made on purpose.
var directoryTests = map[string]func(*suite){
	"Made":        testMakeDir,
	"MadeTwice":   testMakeDirTwice,
	"Implied":     testImpliedDirectory,
	"Removed":     testRemoveDir,
	"KeptEmpty":   testKeepDir,
	"Renamed":     testRenameDir,
	"NotAMemory":  testDirAndMemory,
	"Invalid":     testInvalidDirs,
	"NotCounted":  testDirsNotCounted,
	"Imported":    testImportDirs,
	"Spelling":    testSpelling,
	"Together":    testDirsTogether,
	"ChildrenOf":  testChildrenOfDirs,
	"BroughtBack": testReviveDir,
}

func makeDir(path string, expect versionlog.Expectation) versionlog.Change {
	return versionlog.Change{Action: versionlog.MakeDir, Path: path, Expect: expect}
}

var absent = versionlog.ExpectAbsent()

func (s *suite) makeDir(path string) versionlog.Version {
	s.Helper()
	versions := s.commit(makeDir(path, absent))
	if len(versions) != 1 {
		s.Fatalf("%s became %d versions", path, len(versions))
	}
	return versions[0]
}

// refuse checks that changes end with an error, and that nothing changes.
func (s *suite) refuse(want error, changes ...versionlog.Change) {
	s.Helper()
	s.unchanged(func() {
		s.Helper()
		_, err := s.try(changes...)
		s.wantErr(err, want)
	})
}

// alreadySo checks that changes make no commit.
func (s *suite) alreadySo(changes ...versionlog.Change) {
	s.Helper()
	s.unchanged(func() {
		s.Helper()
		if versions := s.commit(changes...); len(versions) > 0 {
			s.Fatalf("%+v became %+v", changes, versions)
		}
	})
}

func testMakeDir(s *suite) {
	v := s.makeDir("/d/")
	s.equal([]any{v.Op, v.Path, v.Size, v.Digest, v.IsDir(), v.Live()}, []any{versionlog.OpCreated, "/d/", int64(0), versionlog.Digest{}, true, true})
	s.equal(s.head("/d/"), v)
	_, err := s.log.Head(s.Context(), s.store.ID, "/d")
	s.wantErr(err, versionlog.ErrNotFound)
	s.makeDir("/d/e/")
	s.makeDir("/other/deep/")
	s.put("/d/x", "1")
	s.equal(paths(s.heads("/")), []string{"/d/", "/d/e/", "/d/x", "/other/deep/"})
	s.equal(paths(s.heads("/d")), []string{"/d/", "/d/e/", "/d/x"})
	s.equal(s.history(v.MemoryID), []versionlog.Version{v})
	s.verifyChain()
	checkPast(s.Context(), s, s.log, s.store.ID)
}

func testMakeDirTwice(s *suite) {
	v := s.makeDir("/d/")
	s.refuse(versionlog.ErrConflict, makeDir("/d/", absent))
	s.alreadySo(makeDir("/d/", anything))
	s.alreadySo(makeDir("/d/", versionlog.ExpectVersion(v.ID)))
	s.refuse(versionlog.ErrConflict, makeDir("/e/", versionlog.ExpectExists()))
}

// testImpliedDirectory: a directory that memories imply is there as well.
func testImpliedDirectory(s *suite) {
	v := s.put("/d/x/y", "1")
	for _, dir := range []string{"/d/", "/d/x/"} {
		s.refuse(versionlog.ErrConflict, makeDir(dir, absent))
		for _, expect := range []versionlog.Expectation{anything, versionlog.ExpectExists(), versionlog.ExpectVersion(v.ID)} {
			s.alreadySo(makeDir(dir, expect))
		}
		s.refuse(versionlog.ErrConflict, remove(dir, anything))
	}
	s.makeDir("/d/x/z/")
	s.commit(remove("/d/x/y", versionlog.ExpectVersion(v.ID)))
	s.alreadySo(makeDir("/d/x/", anything)) // a directory implies those above it, too
}

func testRemoveDir(s *suite) {
	v := s.makeDir("/d/")
	s.put("/d/x", "1")
	s.put("/d.", "1") // which is not in it
	s.refuse(versionlog.ErrOverlap, remove("/d/", anything))
	s.refuse(versionlog.ErrOverlap, remove("/d/", anything), remove("/d/x", anything), put("/d/y", "1", anything))
	s.makeDir("/d/e/")
	s.refuse(versionlog.ErrOverlap, remove("/d/", anything), remove("/d/x", anything))
	s.commit(remove("/d/e/", anything))
	s.commit(remove("/d/x", anything))
	s.equal(s.head("/d/"), v) // it stays when what was in it goes
	gone := s.commit(remove("/d/", versionlog.ExpectVersion(v.ID)))[0]
	s.equal([]any{gone.Op, gone.MemoryID, gone.Parent, gone.Live()}, []any{versionlog.OpDeleted, v.MemoryID, v.ID, false})
	s.refuse(versionlog.ErrConflict, remove("/d/", anything))
	s.put("/d/late", "1") // a memory needs no directory
	s.equal(paths(s.heads("/")), []string{"/d.", "/d/late"})
	checkPast(s.Context(), s, s.log, s.store.ID)
}

// testKeepDir: a directory can stay that loses its last memory.
func testKeepDir(s *suite) {
	s.put("/d/x", "1")
	s.put("/d/y", "1")
	s.equal(len(s.commit(remove("/d/x", anything), makeDir("/d/", anything))), 1) // something is left
	s.equal(len(s.commit(remove("/d/y", anything), makeDir("/d/", anything))), 2)
	s.equal(paths(s.heads("/")), []string{"/d/"})
	s.put("/e/x", "1")
	s.commit(rename("/e/x", "/x", anything), makeDir("/e/", absent))
	s.equal(paths(s.heads("/")), []string{"/d/", "/e/", "/x"})
}

func testRenameDir(s *suite) {
	v := s.makeDir("/d/")
	s.makeDir("/d/e/")
	x := s.put("/d/e/x", "1")
	s.refuse(versionlog.ErrOverlap, rename("/d/", "/n/", anything))
	moved := s.commit(rename("/d/", "/n/", anything), rename("/d/e/", "/n/e/", anything), rename("/d/e/x", "/n/e/x", anything))
	s.equal([]string{moved[0].MemoryID, moved[0].From, moved[2].MemoryID}, []string{v.MemoryID, "/d/", x.MemoryID})
	s.equal(paths(s.heads("/")), []string{"/n/", "/n/e/", "/n/e/x"})
	s.put("/full/x", "1")
	s.makeDir("/made/")
	s.makeDir("/empty/")
	s.refuse(versionlog.ErrConflict, rename("/empty/", "/full/", anything))
	s.refuse(versionlog.ErrConflict, rename("/empty/", "/made/", anything))
	s.refuse(versionlog.ErrOverlap, rename("/empty/", "/elsewhere/", anything), makeDir("/empty/in/", anything))
	s.commit(rename("/empty/", "/elsewhere/", anything))
	s.makeDir("/empty/in/")
	s.refuse(versionlog.ErrConflict, rename("/elsewhere/", "/empty/", anything))
	checkPast(s.Context(), s, s.log, s.store.ID)
}

// testDirAndMemory: no path is both.
func testDirAndMemory(s *suite) {
	s.makeDir("/d/")
	s.put("/m", "1")
	s.refuse(versionlog.ErrOverlap, put("/d", "1", anything))
	s.refuse(versionlog.ErrOverlap, rename("/m", "/d", anything))
	s.refuse(versionlog.ErrOverlap, makeDir("/m/", anything))
	s.refuse(versionlog.ErrOverlap, makeDir("/m/x/", absent))
	s.refuse(versionlog.ErrOverlap, rename("/d/", "/m/d/", anything))
	s.refuse(versionlog.ErrOverlap, makeDir("/n/", absent), put("/n", "1", anything))
	s.commit(remove("/d/", anything), put("/d", "1", anything)) // one for the other
	s.commit(remove("/d", anything), makeDir("/d/", anything))
	s.equal(paths(s.heads("/")), []string{"/d/", "/m"})
}

func testInvalidDirs(s *suite) {
	s.makeDir("/d/")
	s.put("/m", "1")
	for _, c := range []versionlog.Change{
		makeDir("/", anything), makeDir("//", anything), makeDir("/x", anything), makeDir("/x//", anything), makeDir("x/", anything),
		put("/d/", "1", anything), put("/x/", "1", anything), rename("/d/", "/x", anything), rename("/m", "/x/", anything), rename("/d/", "/", anything),
	} {
		s.refuse(versionlog.ErrInvalid, c)
	}
	s.refuse(versionlog.ErrInvalid, makeDir("/x/", absent), makeDir("/x/", absent))
}

func testDirsNotCounted(s *suite) {
	s.makeDir("/d/")
	s.put("/d/x", "123")
	s.equal(s.tip().Totals, versionlog.Totals{Bytes: 3, Memories: 1, InHour: 2})
	s.commit(remove("/d/x", anything))
	s.commit(remove("/d/", anything))
	s.equal(s.tip().Totals, versionlog.Totals{Bytes: 3, Memories: 0, InHour: 4})
}

func testImportDirs(s *suite) {
	s.makeDir("/d/")
	s.commit(makeDir("/e/", anything), put("/e/x", "1", anything))
	s.commit(remove("/e/x", anything))
	s.commit(rename("/e/", "/f/", anything))
	s.put("/g/x", "1")
	s.commit(remove("/g/x", anything), makeDir("/g/", anything))
	s.commit(remove("/d/", anything))
	commits, to := s.commits(0), s.cfg.Open(s.T, s.clock.now)
	s.must(to.CreateStore(s.Context(), s.store))
	s.must(versionlog.Import(s.Context(), to, s.store.ID, each(commits)))
	heads, tip := s.heads("/"), s.tip()
	s.log = to
	s.equal(s.commits(0), commits)
	s.equal(s.heads("/"), heads)
	s.equal(s.tip(), tip)
}

// testSpelling: how a name was spelled is kept with it.
func testSpelling(s *suite) {
	spelled := func(c versionlog.Change, spelling string) versionlog.Change {
		c.Spelling = spelling
		return c
	}
	nfc, nfd := "/caf\u00e9", "/cafe\u0301"
	v := s.commit(spelled(put(nfc, "1", anything), nfd))[0]
	s.equal(v.Spelling, nfd)
	s.equal(s.head(nfc), v)
	v = s.put(nfc, "2") // a later writer need not spell it
	s.equal(v.Spelling, nfd)
	s.equal(s.commit(spelled(put(nfc, "3", anything), nfc))[0].Spelling, "") // as it is stored
	s.equal(s.put(nfc, "4").Spelling, "")
	s.equal(s.commit(rename(nfc, nfc+"2", anything))[0].Spelling, "")
	v = s.commit(spelled(rename(nfc+"2", nfc, anything), nfd))[0]
	s.equal(v.Spelling, nfd)
	s.equal(s.heads("/"), []versionlog.Version{v})
	s.equal(s.children("/"), []versionlog.Version{v})
	s.equal(s.history(v.MemoryID)[0], v)
	dir := s.commit(spelled(makeDir(nfc+"d/", absent), nfd+"d/"))[0]
	s.equal(s.head(nfc+"d/").Spelling, dir.Spelling)
	s.equal(s.commit(remove(nfc, anything))[0].Spelling, "")
	s.refuse(versionlog.ErrInvalid, spelled(put("/x", "1", anything), "\xff"))
	if s.cfg.Reopen != nil {
		s.log = s.cfg.Reopen(s, s.log)
		s.equal(s.head(nfc+"d/"), dir)
	}
	s.verifyChain()
	checkPast(s.Context(), s, s.log, s.store.ID)
	commits, to := s.commits(0), s.cfg.Open(s.T, s.clock.now)
	s.must(to.CreateStore(s.Context(), s.store))
	s.must(versionlog.Import(s.Context(), to, s.store.ID, each(commits)))
	s.log = to
	s.equal(s.commits(0), commits)
}

// testDirsTogether: directories may be made in one commit with what comes into them.
func testDirsTogether(s *suite) {
	versions := s.commit(makeDir("/d/", absent), makeDir("/d/e/", absent), put("/d/e/x", "1", absent), makeDir("/d/f/", anything))
	s.equal(len(versions), 4)
	s.equal(paths(s.heads("/")), []string{"/d/", "/d/e/", "/d/e/x", "/d/f/"})
	s.commit(remove("/d/", anything), remove("/d/e/", anything), remove("/d/f/", anything), remove("/d/e/x", anything))
	s.equal(len(s.heads("/")), 0)
}

func testChildrenOfDirs(s *suite) {
	for _, dir := range []string{"/d/", "/d/e/", "/d/e/f/", "/g/h/"} {
		s.makeDir(dir)
	}
	for _, path := range []string{"/d!", "/d/e!", "/d/x", "/d0"} {
		s.put(path, "1")
	}
	for _, dir := range []string{"/", "/d", "/d/e", "/d/e/f", "/g", "/g/h"} {
		s.checkChildren(dir)
	}
	s.equal(len(s.children("/d")), 3)
	s.equal(len(s.children("/g/h")), 0)
	checkPast(s.Context(), s, s.log, s.store.ID)
}

func testReviveDir(s *suite) {
	s.makeDir("/d/")
	gone := s.commit(remove("/d/", anything))[0]
	file := s.put("/m", "1")
	s.commit(remove("/m", anything))
	wrong, again := put("/m", "1", absent), makeDir("/d2/", absent)
	wrong.MemoryID, again.MemoryID = gone.MemoryID, file.MemoryID
	s.refuse(versionlog.ErrInvalid, wrong)
	s.refuse(versionlog.ErrInvalid, again)
	again.MemoryID = gone.MemoryID
	v := s.commit(again)[0]
	s.equal([]string{v.MemoryID, v.Parent, string(v.Op)}, []string{gone.MemoryID, gone.ID, string(versionlog.OpCreated)})
}
